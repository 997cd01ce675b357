"""Models that need no provider: they follow a script, or repeat what was recorded."""

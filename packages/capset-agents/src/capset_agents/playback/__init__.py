"""Models without a provider: they follow a script, or replay recorded answers."""

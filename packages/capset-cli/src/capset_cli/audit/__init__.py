"""``capset audit``: reading, verifying, signing and pruning the record of every attempt (spec 4, G20–G23)."""

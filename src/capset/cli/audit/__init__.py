"""``capset audit``: reading, checking, signing and cutting the record of every attempt (spec 4, G20–G23)."""

"""``capset sessions``: conversations, their state and the events of their turns."""

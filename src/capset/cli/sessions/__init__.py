"""``capset sessions``: conversations, their state and what is told of their turns."""

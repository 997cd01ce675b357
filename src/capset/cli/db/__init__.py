"""``capset db``: operation of a database."""

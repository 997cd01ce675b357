"""``capset db``: what a database needs of whoever runs it."""

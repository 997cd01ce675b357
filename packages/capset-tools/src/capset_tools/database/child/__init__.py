"""The code of the process that queries PostgreSQL. It imports nothing else of capset."""

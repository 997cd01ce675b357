"""The code of the process that asks PostgreSQL. It loads nothing else of capset."""

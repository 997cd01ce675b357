"""A soak of mixed load: everything that clients do at once, for half an hour, and what it leaves behind."""

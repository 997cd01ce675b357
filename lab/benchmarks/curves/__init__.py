"""How times and sizes grow: with tools, open sessions, stored sessions and records."""

"""MCP servers that are used with the credentials of users (spec 11)."""

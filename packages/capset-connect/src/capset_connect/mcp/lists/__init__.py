"""Lists of MCP servers: their size, their members, and the offers in them."""

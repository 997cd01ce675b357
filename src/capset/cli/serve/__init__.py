"""``capset serve``: the REST API and MCP over HTTP."""

"""The interfaces for other processes: REST, MCP and the console. They decide nothing themselves."""

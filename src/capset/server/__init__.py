"""The doors that other processes enter by: REST, MCP and the console. They decide nothing (DESIGN §2)."""

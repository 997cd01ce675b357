"""``capset agents``: the agents of an organisation, in a database or on a server."""

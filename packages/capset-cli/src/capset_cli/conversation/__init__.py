"""``capset run`` and ``capset chat``: conversations with agents, here or on a server."""

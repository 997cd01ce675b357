"""``capset run`` and ``capset chat``: conversations with agents, on this machine or on a server."""

"""The runtime: one road from a call to its record, and the session that is its door."""

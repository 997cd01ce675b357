"""Calls, from their arguments to their results: sessions, the pipeline and the context of handlers."""

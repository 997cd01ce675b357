"""Adapters between capset and third-party formats, servers and APIs."""

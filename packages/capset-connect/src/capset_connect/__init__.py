"""Adapters between capset and the formats and frameworks of others."""

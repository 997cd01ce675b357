"""Stored agents: reading, storing, comparing and previewing them."""

"""Agents from files and from stores: reading, storing, comparing and showing them."""

"""Agents from files and from stores: reading, storing, comparing and previewing them."""

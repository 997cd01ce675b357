"""Agents from files and from stores: how they are read, kept, compared and shown."""

"""Stores: the protocols, and implementations in memory and SQL."""

"""Stores: the protocols, and their implementations in memory and in SQL."""

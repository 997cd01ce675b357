"""Addresses: what everything that speaks over a network must know of them."""

"""Comparison of two evaluations (spec 2, F31)."""

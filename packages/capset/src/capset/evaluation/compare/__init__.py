"""Comparison of two versions, evaluation by evaluation (spec 2, F31)."""

"""Benchmarks: ratios measured in one run, side by side with peers, and never part of the tests."""

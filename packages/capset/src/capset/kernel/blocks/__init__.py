"""Runs of blocks, and the model steps of generators."""

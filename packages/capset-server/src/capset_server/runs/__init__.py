"""Runs: turns of agents and calls of tools that are queued, and executed by workers."""

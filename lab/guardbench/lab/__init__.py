"""The part that runs in the environment of mcp-guardbench: ``python -m lab.guardbench.lab``."""

"""The runtime: kernels, sessions, and the pipeline from a call to its record."""

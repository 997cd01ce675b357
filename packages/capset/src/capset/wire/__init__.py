"""The wire shapes: one set, for the command line and every other interface."""

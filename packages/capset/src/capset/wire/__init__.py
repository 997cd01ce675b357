"""The wire shapes, shared by the command line and every other interface."""

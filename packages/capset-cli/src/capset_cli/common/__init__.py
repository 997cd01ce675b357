"""Shared parts of the commands: settings, targets, output, exit codes."""

"""What commands share: settings, targets, output, exit codes."""

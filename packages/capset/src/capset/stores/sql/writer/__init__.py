"""The single writer of a process: its queue, its transactions, its lease, and recovery after a crash."""

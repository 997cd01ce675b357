"""What happened in a session: its events, its conversation, and the time line of a run."""

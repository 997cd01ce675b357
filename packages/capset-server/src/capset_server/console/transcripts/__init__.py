"""The events of a session, its conversation, and the time line of a run."""

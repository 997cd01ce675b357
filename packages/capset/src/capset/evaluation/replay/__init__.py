"""Replay of a stored snapshot: what the agent could do then, and what it can do now (spec 2, F33)."""

from capset.evaluation.replay.evaluation import Gone, Replay, principal_of, replay

__all__ = ["Gone", "Replay", "principal_of", "replay"]

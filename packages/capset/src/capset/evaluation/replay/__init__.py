"""Replay of a stored snapshot: what the agent could do then, and what it can do now (spec 2, F33)."""

from capset.evaluation.replay.evaluation import MissingTool, Replay, principal_of, replay

__all__ = ["MissingTool", "Replay", "principal_of", "replay"]

"""Snapshots: what one principal may use here and now, and what is kept of it."""

from capset.evaluation.snapshot.snapshot import Snapshot, Verdict, verdict_of

__all__ = ["Snapshot", "Verdict", "verdict_of"]

"""Snapshots of the tools that one principal may use here and now, and their stored form."""

from capset.evaluation.snapshot.snapshot import Snapshot, Verdict, verdict_of

__all__ = ["Snapshot", "Verdict", "verdict_of"]

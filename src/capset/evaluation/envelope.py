"""The old path of ``capset.evaluation.snapshot.envelope``."""

from capset.evaluation.snapshot.envelope import SnapshotEnvelope, read_envelope

__all__ = ["SnapshotEnvelope", "read_envelope"]

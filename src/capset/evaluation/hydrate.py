"""The old path of ``capset.evaluation.snapshot.hydrate``."""

from capset.evaluation.snapshot.hydrate import hydrate

__all__ = ["hydrate"]

"""The old path of ``capset.evaluation.compare.comparison``."""

from capset.evaluation.compare.comparison import diff_envelopes

__all__ = ["diff_envelopes"]

"""The old path of ``capset.evaluation.compare.report``."""

from capset.evaluation.compare.report import format_diff_report

__all__ = ["format_diff_report"]

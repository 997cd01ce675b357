"""The report of a soak as a file."""

from __future__ import annotations

import json
from typing import Any


def text_of(report: dict[str, Any]) -> str:
    """Return a report as JSON, each member and each sample on a line of its own."""
    members = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in report.items() if name != "samples"]
    samples = ",\n".join(json.dumps(sample) for sample in report["samples"])
    return "{\n" + ",\n".join([*members, f'"samples": [\n{samples}\n]']) + "\n}\n"

"""The report that the demo writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of the calls, as JSON data: files by size, sums over the three largest, and search results."""

    files: list[dict[str, Any]]
    total: float
    mean: float
    hits: dict[str, Any]
    headings: dict[str, Any]
    opening: str


def render_report(found: Findings) -> str:
    """Return the findings as Markdown."""
    lines = ["# What is in these files", "", f"{len(found.files)} files. The largest:", ""]
    lines += ["| file | bytes |", "|---|---:|"]
    lines += [f"| {entry['path']} | {entry['size_bytes']:,} |" for entry in found.files[:3]]
    lines += ["", f"Together {found.total:,} bytes, {found.mean:,.1f} on average.", ""]
    many = " or more" if found.hits["truncated"] else ""
    lines += [f"The word *hash* stands in {found.hits['match_count']}{many} lines. The first:", ""]
    lines += [f"- `{hit['path']}:{hit['line']}`: {hit['text'].strip()}" for hit in found.hits["matches"][:5]]
    if found.headings["matches"]:
        lines += ["", "Headings met on the way:", ""]
        lines += [f"- {hit['text'].lstrip('# ').strip()}" for hit in found.headings["matches"][:10]]
    fence = "~~~~"
    lines += ["", "The largest file begins:", "", fence, *found.opening.splitlines(), fence, ""]
    return "\n".join(lines)

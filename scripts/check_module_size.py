"""Hold the size of modules: none above 400 lines, and in src half of them below 150.

A module is about one idea; one that outgrows its limit holds two. Empty modules do not count for the median.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

FOLDERS: Final = ("src", "tests", "examples", "benchmarks", "scripts")
HARD_LIMIT: Final = 400
MEDIAN_LIMIT: Final = 150


def measure(root: Path) -> dict[Path, int]:
    """Count the lines of every Python module below the checked folders, by path from the root."""
    return {
        path.relative_to(root): len(path.read_bytes().splitlines())
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
    }


def src_median(sizes: Mapping[Path, int]) -> float:
    """Give the median size of the library's own modules, 0 when there are none."""
    return median([lines for path, lines in sizes.items() if path.parts[0] == "src" and lines] or [0])


def problems(sizes: Mapping[Path, int]) -> list[str]:
    """List what breaks a limit, largest module first."""
    too_long = sorted(((lines, path) for path, lines in sizes.items() if lines > HARD_LIMIT), reverse=True)
    found = [f"{path.as_posix()} has {lines} lines; at most {HARD_LIMIT}" for lines, path in too_long]
    if (middle := src_median(sizes)) >= MEDIAN_LIMIT:
        found.append(f"the median module of src has {middle:g} lines; it must stay below {MEDIAN_LIMIT}")
    return found


def main(root: Path) -> int:
    """Print the figures, then the problems; the exit code is 1 when there are any."""
    sizes = measure(root)
    print(f"module size: {len(sizes)} modules, median of src {src_median(sizes):g} lines")
    found = problems(sizes)
    for problem in found:
        print(f"module size: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1]))

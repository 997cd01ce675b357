"""``python -m siege.load PART``: measure what servers carry."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
from pathlib import Path
from typing import Any

from siege.load import crowd

ENGINES = ("sqlite", "postgres")


def main() -> int:
    """Measure the parts named on the command line, or all; end with 1 if one misses a target."""
    parser = argparse.ArgumentParser(prog="siege.load", description=__doc__)
    parser.add_argument("--engine", choices=(*ENGINES, "both"), default="both")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rate", type=float, default=60)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--followers", type=int, default=1_000)
    asked = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    for engine in ENGINES if asked.engine == "both" else (asked.engine,):
        found = crowd.measure(engine, crowd.Sizes(asked.sessions, asked.followers, asked.rate, asked.seconds))
        print(json.dumps(found, indent=1), crowd.misses(found))


if __name__ == "__main__":
    raise SystemExit(main())

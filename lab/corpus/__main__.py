"""``python -m lab.corpus [PART …]``: hold capset to public corpora; ``make lab-corpus`` calls it.

``documents`` loads 2,639 OpenAPI documents, ``requests`` calls 500 of their operations, ``schemas`` runs the
JSON-Schema-Test-Suite; without a name all of them run. It ends with 1 if a bound is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lab.corpus import Failed, documents, requests, schemas
from scripts import npm

PARTS: Final[Mapping[str, Callable[[], bool]]] = {
    "documents": documents.run,
    "requests": requests.run,
    "schemas": schemas.run,
}


def main(arguments: Sequence[str]) -> int:
    """Run parts, and return the exit code. A part that needs npm is skipped, and says so, where there is none."""
    if unknown := [name for name in arguments if name not in PARTS]:
        print(f"corpus: expected some of {', '.join(PARTS)}; got {', '.join(unknown)}", file=sys.stderr)
        return 2
    missed: list[str] = []
    for name in arguments or PARTS:
        print(f"\n== {name}", flush=True)
        try:
            if not PARTS[name]():
                missed.append(name)
        except npm.NpmMissing as error:
            print(f"SKIPPED: {error}")
        except (npm.NotInstalled, Failed) as error:
            print(f"corpus: {error}", file=sys.stderr)
            missed.append(name)
    print(f"\ncorpus: {', '.join(missed)} failed" if missed else "\ncorpus: every bound is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

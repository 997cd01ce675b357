"""Write ``fingerprints.json`` and ``openapi.json`` again, after a change that is meant.

Run ``python -m tests.golden.regenerate`` in the root of the repository, read the difference, and give every hash that
moved a line in ``CHANGELOG.md`` (spec 2, F12): a hash that moves makes everybody's records tell of another version.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from capset_server.app import make_api
from tests.golden.hashing import fingerprints

GOLDEN: Final = Path(__file__).with_name("fingerprints.json")
OPENAPI: Final = Path(__file__).with_name("openapi.json")


def committed() -> dict[str, dict[str, str]]:
    """Return what is written down."""
    return json.loads(GOLDEN.read_text("utf-8"))


def openapi() -> str:
    """Return the OpenAPI document of this version, as it is written down."""
    return json.dumps(make_api().state.document, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the files, and name the hashes that moved."""
    OPENAPI.write_text(openapi(), "utf-8", newline="\n")
    before, now = committed() if GOLDEN.exists() else {}, fingerprints()
    GOLDEN.write_text(json.dumps(now, indent=2, ensure_ascii=False, sort_keys=True) + "\n", "utf-8", newline="\n")
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            print("new:" if name not in before else "gone:" if name not in now else "moved:", name)


if __name__ == "__main__":
    main()

"""The entry point of the process that queries PostgreSQL, run by its path with ``python -I``.

Empty modules stand in for the parent packages: importing all of those would take longer than most queries.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType


def _run() -> None:
    place = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # loading pathlib takes too long
    for name in ("capset_tools.database", "capset_tools"):
        place = os.path.dirname(place)  # noqa: PTH120
        package = ModuleType(name)
        package.__path__ = [place]
        sys.modules[name] = package
    from capset_tools.database.child.main import main

    main()


if __name__ == "__main__":
    _run()

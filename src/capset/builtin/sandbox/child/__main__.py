"""Where the child process begins; it is run by its path, with ``python -I``.

The packages above are given without their code: all of capset would take longer to load than most code runs.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType


def _run() -> None:
    place = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # to load pathlib takes too long
    for name in ("capset.builtin.sandbox", "capset.builtin", "capset"):
        place = os.path.dirname(place)  # noqa: PTH120
        package = ModuleType(name)
        package.__path__ = [place]
        sys.modules[name] = package
    from capset.builtin.sandbox.child.main import main

    main()


if __name__ == "__main__":
    _run()

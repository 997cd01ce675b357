"""How many examples Hypothesis makes up for a test that needs more of them than others, or fewer."""

from __future__ import annotations

import os

from hypothesis import settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "here")


def examples(few: int, many: int) -> settings:
    """Return settings with ``few`` examples in ``make test``, and ``many`` in ``make nightly``."""
    return settings(deadline=None, max_examples=many if PROFILE == "thorough" else few)

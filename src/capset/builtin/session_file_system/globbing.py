"""Which paths a glob means (spec 5, P24)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from capset import ToolError
from capset.builtin.session_file_system.matching import compile_re2

_TOKEN: Final = re.compile(r"(?P<levels>(?<![^/])\*\*/)|(?P<all>\*\*)|\[(?P<set>!?\]?[^\]]*)\]|(?P<one>.)", re.DOTALL)
_ONE: Final = {"*": "[^/]*", "?": "[^/]"}


def path_filter(glob: str | None) -> Callable[[str], bool]:
    """Return a test for normalised paths. Raises ``ToolError`` for a malformed glob.

    A glob without a slash is matched with base names, any other with whole paths from the root. ``*`` and
    ``?`` stop at slashes, ``**`` does not; ``[ab]``, ``[!ab]`` and ``{one,two}`` are understood. Case matters.
    """
    if glob is None:
        return lambda _: True
    whole = "/" in glob
    regex = compile_re2(
        f"path_pattern {glob!r}",
        translate(glob if glob.startswith("/") or not whole else f"/{glob}"),
        dot_nl=True,
    )
    if whole:
        return lambda path: regex.fullmatch(path.encode()) is not None
    return lambda path: regex.fullmatch(path.rpartition("/")[2].encode()) is not None


def translate(glob: str) -> str:
    """Return the RE2 expression of a glob. Raises ``ToolError`` for braces that are not paired."""
    parts: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(glob):
        one = token["one"]
        depth += (one == "{") - (one == "}")
        if depth < 0:
            break
        if token["levels"]:
            parts.append("(?:.*/)?")
        elif token["all"]:
            parts.append(".*")
        elif token["set"] is not None:
            parts.append(_set(token["set"]))
        elif one in ("{", "}"):
            parts.append("(?:" if one == "{" else ")")
        elif one == "," and depth:
            parts.append("|")
        else:
            parts.append(_ONE.get(one, re.escape(one)))
    if depth:
        raise ToolError(f"path_pattern {glob!r}: braces must be paired, as in *.{{md,txt}}", code="invalid_pattern")
    return "".join(parts)


def _set(members: str) -> str:
    negated = members.startswith("!")
    escaped = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", members.removeprefix("!"))
    return f"[^/{escaped}]" if negated else f"[{escaped}]"

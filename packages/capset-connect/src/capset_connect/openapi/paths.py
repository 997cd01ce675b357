"""Paths of operations: the template that is sent, and the query that it fixes (spec 7, M8, M106).

``/messages/{id}?beta=true#old`` is sent as ``/messages/…?beta=true``: a fragment only distinguishes operations.
``{?q}`` (RFC 6570) stands for query parameters, and is not sent either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from urllib.parse import unquote_plus

from capset.errors import DefinitionError

Key = tuple[str, str]
"""The place and the name of a parameter: ``("query", "limit")``."""


def split_path(path: str) -> tuple[str, str, str]:
    """Return the template, the query and the fragment of a path, without ``?`` and ``#``."""
    sent, _, fragment = re.sub(r"\{[?&][^{}]*\}", "", path).partition("#")
    template, _, query = sent.partition("?")
    return template, query, fragment


def fixed_query(path: str, parameters: Collection[Key]) -> str:
    """Return the query that a path fixes, without pairs such as ``q={q}``, which stand for query parameters."""

    def is_parameter(pair: str) -> bool:
        name = _name(pair)
        return pair.endswith(f"={{{name}}}") and ("query", name) in parameters

    pairs = split_path(path)[1].split("&")
    return "&".join(pair for pair in pairs if pair and not is_parameter(pair))


def names_in(query: str) -> set[str]:
    """Return the names in a query, decoded."""
    return {_name(pair) for pair in query.split("&") if pair}


def check_path(path: str, query: str, parameters: Collection[Key]) -> None:
    """Raise ``DefinitionError`` for a path that leads elsewhere, or whose placeholders are not its parameters.

    ``query`` is the result of ``fixed_query`` for it.
    """
    template = split_path(path)[0]
    if not template.startswith("/"):
        raise DefinitionError(f"its path begins with {template[:1]!r}, and not with a slash")
    if (wrong := re.search(r"[\x00-\x20\x7f\\]", template + query)) is not None:
        raise DefinitionError(f"its path has {wrong[0]!r}, which no path can have")
    if not {".", ".."}.isdisjoint(template.split("/")):
        raise DefinitionError("its path has a segment . or ..")
    places = {*_placeholders(template), *_placeholders(query)}
    if odd := sorted(places ^ {name for where, name in parameters if where == "path"}):
        lacks = "no parameter" if odd[0] in places else "no place in its path"
        raise DefinitionError(f"its path and its parameters differ in {odd[0]!r:.80}, which has {lacks}")


def _placeholders(template: str) -> Iterator[str]:
    """Yield the names of placeholders. Raises ``DefinitionError`` for an unbalanced or nested brace."""
    start: int | None = None  # the start of the open placeholder's name
    for brace in re.finditer(r"[{}]", template):
        if brace[0] == "{" and start is None:
            start = brace.end()
        elif brace[0] == "}" and start is not None:
            yield template[start : brace.start()]
            start = None
        else:
            problem = "closes no placeholder" if start is None else "stands within a placeholder"
            raise DefinitionError(f"its path has a {brace[0]!r} that {problem}: {template[brace.start() :]!r:.80}")
    if start is not None:
        raise DefinitionError(f"its path has a '{{' that is not closed: {template[start - 1 :]!r:.80}")


def _name(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0])

"""Tools as their server describes them, and their problems (spec 7, M4)."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, cast

from mcp import Client
from mcp_types import Tool as McpTool

from capset.adapters.mcp.server import McpServer
from capset.definitions.names import TOOL
from capset.errors import DefinitionError, ToolError
from capset.fingerprint.canonical import NotCanonical, digest
from capset.schemas.json_schema import compile_json_schema

MAX_TOOLS: Final = 1_000
_MAX_PAGES: Final = 100
_MAX_SHAPE: Final = 256 * 1024
"""The maximum size of all that a server says of a tool, as JSON in bytes."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
"""The categories of characters that are invisible, or that change the order of others."""
_PLAIN: Final = frozenset("\n\t\r")


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its server describes it now.

    ``shape`` is the JSON that the hash covers: ``name``, ``title``, ``description``, ``inputSchema``, ``outputSchema``
    and ``annotations``, as far as they are given. ``problems`` say why it would not be used as it is.
    """

    name: str
    shape: Mapping[str, Any]
    hash: str
    problems: tuple[str, ...] = ()
    is_unusable: bool = False
    """Whether nothing could call it: its name or its schemas cannot be taken."""


def here(server: McpServer, name: str) -> str:
    """Return the name that a tool has here: that of its server, and its own with ``_`` for dots and slashes."""
    return f"{server.name}_{name}".replace(".", "_").replace("/", "_")


async def offers_of(server: McpServer, client: Client) -> Sequence[Offer]:
    """Return the tools that a server has now, by name. Raises ``ToolError`` for lists without end."""
    found: dict[str, Offer] = {}
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            if server.tools is not None and tool.name not in server.tools:
                continue
            offer = offer_of(server, tool)
            twin = found.get(tool.name)
            found[tool.name] = offer if twin is None else _with(offer, "its server lists another tool of this name")
        cursor = page.next_cursor
        if len(found) > MAX_TOOLS or cursor in seen:
            break
        if cursor is None:
            return _distinct(server, sorted(found.values(), key=lambda one: one.name))
        seen.add(cursor)
    raise ToolError(
        f"The MCP server {server.name!r} lists more than {MAX_TOOLS:,} tools, or pages without end.",
        code="too_many_tools",
        status=502,
    )


def _distinct(server: McpServer, offers: Sequence[Offer]) -> Sequence[Offer]:
    first: dict[str, str] = {}
    found: list[Offer] = []
    for one in offers:
        name = here(server, one.name)
        other = first.setdefault(name, one.name)
        same = () if other == one.name else (f"here it would be called {name}, as {other!r} is",)
        found.append(_with(one, *same))
    return found


def _with(offer: Offer, *problems: str) -> Offer:
    return replace(offer, problems=(*offer.problems, *problems), is_unusable=True) if problems else offer


def offer_of(server: McpServer, tool: McpTool) -> Offer:
    """Return what a server says of one tool, with what is wrong with it."""
    members = {"name", "title", "description", "input_schema", "output_schema", "annotations"}
    shape = tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=members)
    try:
        found = digest(shape)
    except NotCanonical as error:
        return Offer(tool.name, {"name": tool.name}, "", (f"it has no canonical form: {error}",), is_unusable=True)
    unusable = tuple(_faults(server, tool.name, shape))
    return Offer(tool.name, shape, found, (*unusable, *_suspicions(shape)), is_unusable=bool(unusable))


def _faults(server: McpServer, name: str, shape: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a tool cannot be used."""
    size = len(json.dumps(shape, ensure_ascii=False).encode(errors="replace"))
    if size > _MAX_SHAPE:
        yield f"its description and schemas have {size:,} bytes, more than {_MAX_SHAPE:,}"
        return
    if not TOOL.fullmatch(here(server, name)):
        yield f"its name {shown(name)} has other characters than letters, digits, _, -, . and /, or too many"
    if cast("dict[str, Any]", shape.get("inputSchema", {})).get("type") != "object":
        yield "the schema of its arguments is not that of an object"
    for member in ("inputSchema", "outputSchema"):
        if member in shape:
            try:
                compile_json_schema(member, shape[member])
            except DefinitionError as error:
                yield error.message


def _suspicions(shape: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a model may read in a description and a person does not."""
    texts = list(_texts(shape))
    for text in texts:
        if (hidden := next((one for one in text if is_hidden(one)), None)) is not None:
            yield f"its texts contain the invisible character {_named(hidden)}: {shown(text)}"
            break
    for text in texts:
        if (mixed := next((word for word in text.split() if _is_mixed(word)), None)) is not None:
            yield f"its texts mix letters that look alike: {shown(mixed)}"
            break


def _texts(value: Any) -> Iterator[str]:  # JSON
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _texts(inner)


@cache
def is_hidden(letter: str) -> bool:
    """Return whether a character is invisible, or changes the order of others."""
    return letter not in _PLAIN and unicodedata.category(letter) in _HIDDEN


def _is_mixed(word: str) -> bool:
    """Return whether letters of several alphabets that look alike stand in one word."""
    return not word.isascii() and len({script for one in word if (script := _script(one))}) > 1


@cache
def _script(letter: str) -> str:
    """Return the alphabet of a letter that has doubles in others, or nothing."""
    if not letter.isalpha():
        return ""
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script if script in ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH") else ""


def _named(letter: str) -> str:
    return f"U+{ord(letter):04X} {unicodedata.name(letter, '')}".rstrip()


def shown(text: str) -> str:
    """Return a text, cut, with everything visible that is not."""
    cut = text if len(text) <= 200 else f"{text[:200]}…"
    return "".join(one if one.isascii() and one.isprintable() else f"\\u{{{ord(one):x}}}" for one in cut)

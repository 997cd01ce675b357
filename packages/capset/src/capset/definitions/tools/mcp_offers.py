"""Tools that MCP clients are also offered as prompts and resources, for people rather than models (spec 7, M11)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

from capset.definitions.names import checked_list, checked_optional, checked_text
from capset.definitions.tools.definition import AnyTool, Tool
from capset.errors import DefinitionError

MAX_URI_CHARACTERS: Final = 2_048
"""The maximum number of characters of a URI, or of its template."""
SESSION_SCHEME: Final = "capset:"
"""The scheme of a session's own files."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:[^\s{}]*")
_EXPRESSION: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A URI template: its ``names``, and the ``texts`` before, between and after them.

    Only the value of ``multi_segment_name`` may contain slashes.
    """

    names: tuple[str, ...]
    texts: tuple[str, ...]
    multi_segment_name: str | None = None

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the names in a URI, earlier ones as long as possible; ``None`` if it does not match.

        The time grows with the length of the URI; a regular expression would try all ways to divide it among the names.
        """
        first, last = self.texts[0], self.texts[-1]
        if not self.names:
            return {} if uri == first else None
        if not (uri.startswith(first) and uri.endswith(last)):
            return None
        slashes = [*_occurrences(uri, "/")]

        def end_of(name: str, start: int, ends: Sequence[int]) -> int | None:
            """Return the last of ``ends`` at which a value that starts at ``start`` can end."""
            next_slash = bisect_left(slashes, start)
            limit = len(uri) if name == self.multi_segment_name or next_slash == len(slashes) else slashes[next_slash]
            count = bisect_right(ends, limit)
            return ends[count - 1] if count and ends[count - 1] > start else None

        ends_of = {self.names[-1]: [len(uri) - len(last)]}
        for before, name, text in [*zip(self.names, self.names[1:], self.texts[1:], strict=False)][::-1]:
            ends = ends_of[name]
            fitting = (end_of(name, position + len(text), ends) is not None for position in _occurrences(uri, text))
            ends_of[before] = [*compress(_occurrences(uri, text), fitting)]
        values, start = dict[str, str](), len(first)
        for name, text in zip(self.names, self.texts[1:], strict=True):
            end = end_of(name, start, ends_of[name])
            if end is None:
                return None
            values[name], start = uri[start:end], end + len(text)
        return values


def _occurrences(uri: str, text: str) -> Iterator[int]:
    position = uri.find(text)
    while position >= 0:
        yield position
        position = uri.find(text, position + 1)


@dataclass(frozen=True, eq=False, slots=True)
class McpPrompt:
    """A prompt for MCP clients, which a person chooses: getting it calls ``tool``, and its result is the prompt.

    It has the tool's name, description and parameters. Parameters must be texts, since the protocol has no other type.
    Raises ``DefinitionError`` for a tool that does more than read, or that has other parameters.
    """

    tool: AnyTool
    title: str | None = None

    def __post_init__(self) -> None:
        _check_tool("an McpPrompt", self.tool)
        checked_optional(f"the prompt {self.tool.name!r}: title", self.title)


@dataclass(frozen=True, eq=False, slots=True)
class McpResource:
    """A resource for MCP clients: reading it calls ``tool``, and its result is the content.

    ``uri`` is a URI, or a URI template (RFC 6570) in which ``{name}`` stands for one segment and ``{+name}`` for any
    number of them. The names are those of the tool's parameters, which must be texts. If ``parameter`` is given, the
    tool takes the whole URI as that parameter, and the names are only placeholders. ``media_type`` is that of a text;
    content has its own. Raises ``DefinitionError`` for a tool that does more than read, and for a URI that does not fit
    the tool.
    """

    uri: str
    tool: AnyTool
    media_type: str | None = None
    title: str | None = None
    parameter: str | None = None
    variables: tuple[str, ...] = field(init=False)
    """The names in the template, in order; empty for a single resource."""
    _template: UriTemplate = field(init=False, repr=False)

    def __post_init__(self) -> None:
        owner = f"the resource {self.uri!r:.200}"
        _check_tool(owner, self.tool)
        template = read_template(owner, self.uri)
        names = template.names if self.parameter is None else (self.parameter,)
        parameters = self.tool.parameters
        if unknown := [name for name in names if name not in parameters]:
            raise DefinitionError(
                f"{owner}: {unknown[0]!r} is not a parameter of {self.tool.name!r}, which has "
                f"{', '.join(parameters) or 'none'}"
            )
        needed: Sequence[str] = self.tool.arguments.json_schema.get("required", ())
        if missing := [name for name in needed if name not in names]:
            raise DefinitionError(f"{owner}: {self.tool.name!r} needs {missing[0]!r}", hint="put it into the template")
        checked_optional(f"{owner}: media_type", self.media_type)
        checked_optional(f"{owner}: title", self.title)
        object.__setattr__(self, "variables", template.names)
        object.__setattr__(self, "_template", template)

    @property
    def is_template(self) -> bool:
        """Whether it stands for many resources."""
        return bool(self.variables)

    def arguments(self, uri: str) -> Mapping[str, str] | None:
        """Return the arguments of the tool for a URI, or ``None`` if the URI does not match this resource."""
        parts = self._template.match(uri) if len(uri) <= MAX_URI_CHARACTERS else None
        if parts is None:
            return None
        if self.parameter is not None:
            return {self.parameter: uri}
        return {name: unquote(part) for name, part in parts.items()}


McpOffer: TypeAlias = McpPrompt | McpResource


def checked_offers(owner: str, offers: Iterable[McpOffer], tools: Iterable[AnyTool]) -> tuple[McpOffer, ...]:
    """Return the offers of a capability. Raises ``DefinitionError`` for one whose tool it does not bring."""
    entries, tool_set = tuple(checked_list(f"{owner}: mcp", offers)), set(tools)
    for offer in entries:
        if not isinstance(offer, McpPrompt | McpResource):
            raise DefinitionError(f"{owner}: mcp has McpPrompt and McpResource; got {offer!r:.80}")
        if offer.tool not in tool_set:
            raise DefinitionError(
                f"{owner}: mcp offers {offer.tool!r}, which it does not bring", hint="add it to tools"
            )
    uris = [offer.uri for offer in entries if isinstance(offer, McpResource)]
    prompts = [offer.tool.name for offer in entries if isinstance(offer, McpPrompt)]
    for kind, names in (("resource", uris), ("prompt", prompts)):
        if twice := [name for name in names if names.count(name) > 1]:
            raise DefinitionError(f"{owner}: mcp offers the {kind} {twice[0]!r} twice")
    return entries


def takes_text(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> bool:
    """Whether the schema of a parameter accepts texts."""
    if "$ref" in schema:
        return takes_text(cast("Mapping[str, Any]", defs.get(str(schema["$ref"]).rpartition("/")[2], {})), defs)
    if "anyOf" in schema:
        return any(takes_text(option, defs) for option in schema["anyOf"])
    return schema.get("type") == "string" or any(isinstance(choice, str) for choice in schema.get("enum", ()))


def _check_tool(owner: str, tool: object) -> None:
    if not isinstance(tool, Tool):
        raise DefinitionError(f"{owner} needs a Tool; got {tool!r:.80}")
    if cast("AnyTool", tool).effect != "read":
        raise DefinitionError(
            f"{owner}: {cast('AnyTool', tool)!r} does more than read, but clients get prompts and resources freely",
            hint="offer a tool with effect='read'",
        )
    schema = cast("AnyTool", tool).arguments.json_schema
    for name, parameter in cast("Mapping[str, Any]", schema.get("properties", {})).items():
        if not takes_text(parameter, schema.get("$defs", {})):
            raise DefinitionError(f"{owner}: the parameter {name!r} takes no text, and the protocol has no other type")


def read_template(owner: str, uri: str) -> UriTemplate:
    """Parse a URI template. Raises ``DefinitionError``, starting with ``owner``."""
    text = checked_text(f"{owner}: uri", uri)
    if len(text) > MAX_URI_CHARACTERS or not _SCHEME.fullmatch(_EXPRESSION.sub("x", text)):
        raise DefinitionError(
            f"{owner}: a URI begins with its scheme, has no spaces and at most {MAX_URI_CHARACTERS:,} characters",
            hint="such as handbook://chapters/{chapter}",
        )
    if text.startswith(SESSION_SCHEME):
        raise DefinitionError(f"{owner}: the scheme {SESSION_SCHEME!r} is for the files of sessions")
    names, texts, end, multi_segment_name = list[str](), list[str](), 0, None
    for match in _EXPRESSION.finditer(text):
        if names and match.start() == end:
            raise DefinitionError(f"{owner}: there must be text between {names[-1]!r} and {match[2]!r}")
        if match[2] in names or (match[1] and multi_segment_name is not None):
            raise DefinitionError(f"{owner}: a template can have each name only once, and only one {{+…}}")
        texts.append(text[end : match.start()])
        names.append(match[2])
        end, multi_segment_name = match.end(), match[2] if match[1] else multi_segment_name
    return UriTemplate(tuple(names), (*texts, text[end:]), multi_segment_name)

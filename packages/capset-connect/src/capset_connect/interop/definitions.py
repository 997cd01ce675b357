"""Tool definitions of OpenAI (two formats), Anthropic and MCP, and bare function documents (spec 8, W20, W22)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

from capset.definitions.names import TOOL, checked_copy
from capset.errors import CapsetError, DefinitionError
from capset.schemas.parameters import check_object
from capset_connect.interop.json_types import mapped_result, mapped_schema
from capset_connect.pins.offers import examined

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX: Final = 64
_DIGITS: Final = 8


Given: TypeAlias = Mapping[str, Any]
"""A definition in its original form: JSON."""
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema")
"""The members for the schema of the arguments: of OpenAI and bare documents, of Anthropic, and of MCP."""
_RESULTS: Final = ("outputSchema", "response")
"""The members for the schema of the result: of MCP, and of bare documents."""
_KNOWN: Final = frozenset({"type", "name", "title", "description", "strict", "annotations", *_SCHEMAS, *_RESULTS})


@dataclass(frozen=True, slots=True)
class DefinedTool:
    """A tool read from a definition. Its schemas are JSON Schema; ``given`` is the original definition."""

    name: str
    """Its name in the definition."""
    here: str
    """Its name for models."""
    description: str
    arguments: Mapping[str, Any]  # a JSON Schema, as is the next
    returns: Mapping[str, Any] | None
    title: str | None
    hints: Mapping[str, Any]  # JSON data
    """MCP's annotations."""
    given: Given


@dataclass(frozen=True, slots=True)
class ToolReading:
    """The tools of a list of definitions, and the problems in the list.

    ``refused`` has a message for each definition that cannot be a tool, with the path and the reason. ``left_out`` has
    messages about ignored members, and about texts with misleading characters.
    """

    tools: tuple[DefinedTool, ...]
    refused: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def names(self) -> Mapping[str, str]:
        """The original names of the tools, by their names for models."""
        return MappingProxyType({tool.here: tool.name for tool in self.tools})


def read_tools(definitions: object) -> ToolReading:
    """Return the tools of a list of definitions, of an object with such a list as ``tools``, or of one definition.

    A definition that cannot be a tool is listed in ``refused``. Raises ``DefinitionError`` only for other values.
    """
    read: list[_Parts] = []
    refused: list[str] = []
    for at, definition in enumerate(_listed(definitions)):
        try:
            read.append(_parts(f"tools.{at}", definition))
        except DefinitionError as error:
            refused.append(_told(error))
    names, clashes = distinct_names(dict.fromkeys(parts.name for parts in read))
    tools: dict[str, DefinedTool] = {}
    left_out = [f"{key}, next to tools" for key in _beside(definitions)]
    for definition in read:
        try:
            if definition.name in tools:
                raise DefinitionError(f"{definition.name}: another definition has this name; rename one of them")
            if definition.name in clashes:
                raise DefinitionError(f"{definition.name}: {clashes[definition.name]}")
            tools[definition.name] = _tool(definition, names[definition.name], left_out)
        except DefinitionError as error:
            refused.append(_told(error))
        except (RecursionError, TypeError, ValueError) as error:  # data that is not JSON, or is nested too deeply
            refused.append(f"{definition.name}: JSON of a moderate depth was expected; it cannot be read: {error}")
    return ToolReading(tuple(tools.values()), tuple(refused), tuple(left_out))


def _told(error: CapsetError) -> str:
    return error.message if error.hint is None else f"{error.message}; {error.hint}"


def _listed(definitions: object) -> list[object]:
    if isinstance(definitions, Mapping):
        members = cast("Given", definitions)
        definitions = members.get("tools", [members])
    if not isinstance(definitions, list | tuple):
        raise DefinitionError(
            f"a list of tool definitions was expected, or an object with tools; got {definitions!r:.80}"
        )
    return list(cast("list[object]", definitions))


def _beside(definitions: object) -> Iterator[str]:
    """Yield the ignored members next to a list of tools."""
    if isinstance(definitions, Mapping) and "tools" in definitions:
        yield from (key for key in cast("Given", definitions) if key != "tools")


@dataclass(frozen=True, slots=True)
class _Parts:
    """A definition in a known format."""

    name: str
    members: Given
    given: Given
    outside: tuple[str, ...] = field(default=())
    """Members next to the ``function`` of Chat Completions."""


def _parts(place: str, definition: object) -> _Parts:
    """Split a definition. Raises ``DefinitionError`` if its format is unknown."""
    if not isinstance(definition, Mapping):
        raise DefinitionError(f"{place}: a tool definition was expected, as an object; got {definition!r:.80}")
    document = cast("Given", definition)
    members, outside = document, tuple[str, ...]()
    if isinstance(document.get("function"), Mapping):
        members = cast("Given", document["function"])
        outside = tuple(key for key in document if key not in ("type", "function"))
    kind = document.get("type", "function")
    if kind != "function" and "input_schema" not in document:
        raise DefinitionError(
            f"{place}.type: 'function' was expected; got {kind!r:.80}, which is run by the provider or takes no JSON"
        )
    name = members.get("name")
    if not isinstance(name, str) or not name:
        raise DefinitionError(f"{place}.name: the name of a tool was expected; got {name!r:.80}")
    return _Parts(name, members, document, outside)


def _tool(parts: _Parts, local_name: str, left_out: list[str]) -> DefinedTool:
    """Return the tool of a definition, and add messages to ``left_out``. Raises ``DefinitionError``."""
    members, name = parts.members, parts.name
    schemas = [key for key in _SCHEMAS if key in members]
    if len(schemas) > 1:
        raise DefinitionError(
            f"{name}: it has both {schemas[0]} and {schemas[1]}; only one schema of arguments is allowed"
        )
    argument_key = schemas[0] if schemas else _SCHEMAS[0]
    arguments = mapped_schema(f"{name}: {argument_key}", members.get(argument_key))
    check_object(f"{name}: {argument_key}", arguments)
    results = [key for key in _RESULTS if members.get(key) is not None]
    returns = mapped_result(f"{name}: {results[0]}", members[results[0]]) if results else None
    annotations: Given = members.get("annotations") or {}
    if not isinstance(annotations, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # external data
        raise DefinitionError(f"{name}: annotations: an object was expected; got {annotations!r:.80}")
    title = _text(name, "title", members.get("title", annotations.get("title")))
    description = _text(name, "description", members.get("description")) or ""
    shape: dict[str, Any] = {"name": name, "description": description, "inputSchema": arguments}
    shape |= {"title": title} if title is not None else {}
    shape |= {"outputSchema": returns} if returns is not None else {}
    offer = examined(name, local_name, shape)
    if offer.is_unusable:
        raise DefinitionError(f"{name}: {offer.problems[0].replace('inputSchema: ', '')}")
    left_out += [f"{name}: {problem}" for problem in (*offer.problems, *offer.notes)]
    left_out += [f"{name}: {key}" for key in _unused(parts, results)]
    return DefinedTool(
        name=name,
        here=local_name,
        description=description if description.strip() else f"The tool {name}.",
        arguments=arguments,
        returns=returns,
        title=title,
        hints=annotations,
        given=checked_copy(name, dict(parts.given)),
    )


def _unused(parts: _Parts, results: list[str]) -> Iterator[str]:
    """Yield the ignored members of a definition."""
    yield from parts.outside
    yield from (key for key in parts.members if key not in _KNOWN)
    if parts.members.get("strict"):  # capset validates every call, strict or not
        yield "strict"
    yield from results[1:]


def _text(name: str, key: str, text: object) -> str | None:
    if text is not None and not isinstance(text, str):
        raise DefinitionError(f"{name}: {key}: a text was expected; got {text!r:.80}")
    return text


def names_here(originals: Iterable[str]) -> Mapping[str, str]:
    """Return the original names by their names for models, in order.

    A name that models accept is unchanged. In other names, each character that they do not accept becomes ``_``. If the
    result has more than 64 characters, no letters or digits, or is not unique, it ends in ``_`` and eight digits of the
    SHA-256 of the original. So a name does not depend on the order of the others.

    Raises ``DefinitionError`` for two equal originals, and for two names that are equal in spite of their digits.
    """
    names = list(originals)
    for name, count in Counter(names).items():
        if count > 1:
            raise DefinitionError(f"{count} tools are called {name!r:.80}: names must be unique")
    local_names, clashes = distinct_names(names)
    for reason in clashes.values():
        raise DefinitionError(reason)
    return MappingProxyType({local_name: name for name, local_name in local_names.items()})


def distinct_names(originals: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names for models by their originals, and a message for each original that gets no unique name.

    The originals must be unique. If several get the same name in spite of their digits, only an original that equals
    the name keeps it.
    """
    plain = {name: _OTHER.sub("_", name) for name in originals}
    counts = Counter(plain.values())
    by_name: dict[str, list[str]] = {}
    for name, local_name in plain.items():
        is_taken = TOOL.fullmatch(name) is not None
        is_clear = is_taken or (counts[local_name] == 1 and len(local_name) <= _MAX and bool(local_name.strip("_-")))
        by_name.setdefault(local_name if is_clear else _marked(local_name, name), []).append(name)
    by_original: dict[str, str] = {}
    clashes: dict[str, str] = {}
    for name, local_name in ((name, short_name) for short_name, names in by_name.items() for name in names):
        others = [original for original in by_name[local_name] if original != name]
        if others and name != local_name:
            clashes[name] = f"{name!r:.80} and {others[0]!r:.80} would both be called {local_name!r}: rename one"
        else:
            by_original[name] = local_name
    order = {name: at for at, name in enumerate(plain)}
    return dict(sorted(by_original.items(), key=lambda item: order[item[0]])), clashes


def _marked(local_name: str, original: str) -> str:
    """Return a name that ends in digits of the original name's hash."""
    digits = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    start = local_name[: _MAX - _DIGITS - 1].strip("_-") or "tool"
    return f"{start}_{digits}"

"""Tool definitions of others: OpenAI's two forms, Anthropic's, MCP's, bare function documents (spec 8, W20, W22)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

from capset.definitions.names import TOOL, copied
from capset.errors import CapsetError, DefinitionError
from capset.schemas.parameters import check_object
from capset_connect.interop.json_types import mapped_result, mapped_schema
from capset_connect.offers import examined

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX: Final = 64
_DIGITS: Final = 8


Given: TypeAlias = Mapping[str, Any]
"""A definition as it was given: JSON."""
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema")
"""The member that has the schema of the arguments: OpenAI's and of bare documents, Anthropic's, MCP's."""
_RESULTS: Final = ("outputSchema", "response")
"""The member that has the schema of the result: MCP's, and of bare documents."""
_KNOWN: Final = frozenset({"type", "name", "title", "description", "strict", "annotations", *_SCHEMAS, *_RESULTS})


@dataclass(frozen=True, slots=True)
class DefinedTool:
    """A tool that others defined. Its schemas are JSON Schema; ``given`` is the definition itself."""

    name: str
    """Its own name, as it was given."""
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
    """The tools of a list of definitions, and what is to be said about it.

    ``refused`` are the definitions that cannot be tools, each with the path in it and the reason; ``left_out`` are
    members that mean nothing here, and texts that are not what they seem.
    """

    tools: tuple[DefinedTool, ...]
    refused: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def names(self) -> Mapping[str, str]:
        """The names of the tools as they were given, by their names here."""
        return MappingProxyType({one.here: one.name for one in self.tools})


def read_tools(given: object) -> ToolReading:
    """Return the tools of a list of definitions, of an object with such a list as ``tools``, or of one definition.

    Raises ``DefinitionError`` only for something else; a definition that cannot be a tool is among the refused.
    """
    read: list[_Parts] = []
    refused: list[str] = []
    for at, one in enumerate(_listed(given)):
        try:
            read.append(_parts(f"tools.{at}", one))
        except DefinitionError as error:
            refused.append(_told(error))
    names, clashes = distinct_names(dict.fromkeys(one.name for one in read))
    tools: dict[str, DefinedTool] = {}
    left_out = [f"{key}, beside tools" for key in _beside(given)]
    for one in read:
        try:
            if one.name in tools:
                raise DefinitionError(f"{one.name}: another definition has this name; give it one of its own")
            if one.name in clashes:
                raise DefinitionError(f"{one.name}: {clashes[one.name]}")
            tools[one.name] = _tool(one, names[one.name], left_out)
        except DefinitionError as error:
            refused.append(_told(error))
        except (RecursionError, TypeError, ValueError) as error:  # of data that are not JSON, or nested too deeply
            refused.append(f"{one.name}: JSON of a moderate depth was expected; it cannot be read: {error}")
    return ToolReading(tuple(tools.values()), tuple(refused), tuple(left_out))


def _told(error: CapsetError) -> str:
    return error.message if error.hint is None else f"{error.message}; {error.hint}"


def _listed(given: object) -> list[object]:
    if isinstance(given, Mapping):
        members = cast("Given", given)
        given = members.get("tools", [members])
    if not isinstance(given, list | tuple):
        raise DefinitionError(f"a list of tool definitions was expected, or an object with tools; got {given!r:.80}")
    return list(cast("list[object]", given))


def _beside(given: object) -> Iterator[str]:
    """Yield the members beside a list of tools, which mean nothing here."""
    if isinstance(given, Mapping) and "tools" in given:
        yield from (key for key in cast("Given", given) if key != "tools")


@dataclass(frozen=True, slots=True)
class _Parts:
    """A definition whose form is known."""

    name: str
    members: Given
    given: Given
    outside: tuple[str, ...] = field(default=())
    """Members beside the ``function`` of Chat Completions."""


def _parts(place: str, given: object) -> _Parts:
    """Return a definition whose form is known. Raises ``DefinitionError`` for others."""
    if not isinstance(given, Mapping):
        raise DefinitionError(f"{place}: a tool definition was expected, as an object; got {given!r:.80}")
    whole = cast("Given", given)
    members, outside = whole, tuple[str, ...]()
    if isinstance(whole.get("function"), Mapping):
        members = cast("Given", whole["function"])
        outside = tuple(key for key in whole if key not in ("type", "function"))
    kind = whole.get("type", "function")
    if kind != "function" and "input_schema" not in whole:
        raise DefinitionError(
            f"{place}.type: 'function' was expected; got {kind!r:.80}, which is run by the provider or takes no JSON"
        )
    name = members.get("name")
    if not isinstance(name, str) or not name:
        raise DefinitionError(f"{place}.name: the name of a tool was expected; got {name!r:.80}")
    return _Parts(name, members, whole, outside)


def _tool(one: _Parts, here: str, left_out: list[str]) -> DefinedTool:
    """Return the tool of a definition, and add what is left out of it. Raises ``DefinitionError``."""
    members, name = one.members, one.name
    schemas = [key for key in _SCHEMAS if key in members]
    if len(schemas) > 1:
        raise DefinitionError(f"{name}: it has both {schemas[0]} and {schemas[1]}; one schema of arguments is expected")
    argument_key = schemas[0] if schemas else _SCHEMAS[0]
    arguments = mapped_schema(f"{name}: {argument_key}", members.get(argument_key))
    check_object(f"{name}: {argument_key}", arguments)
    results = [key for key in _RESULTS if members.get(key) is not None]
    returns = mapped_result(f"{name}: {results[0]}", members[results[0]]) if results else None
    annotations: Given = members.get("annotations") or {}
    if not isinstance(annotations, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # data of others
        raise DefinitionError(f"{name}: annotations: an object was expected; got {annotations!r:.80}")
    title = _text(name, "title", members.get("title", annotations.get("title")))
    description = _text(name, "description", members.get("description")) or ""
    shape: dict[str, Any] = {"name": name, "description": description, "inputSchema": arguments}
    shape |= {"title": title} if title is not None else {}
    shape |= {"outputSchema": returns} if returns is not None else {}
    offer = examined(name, here, shape)
    if offer.is_unusable:
        raise DefinitionError(f"{name}: {offer.problems[0].replace('inputSchema: ', '')}")
    left_out += [f"{name}: {problem}" for problem in (*offer.problems, *offer.notes)]
    left_out += [f"{name}: {key}" for key in _unused(one, results)]
    return DefinedTool(
        name=name,
        here=here,
        description=description if description.strip() else f"The tool {name}.",
        arguments=arguments,
        returns=returns,
        title=title,
        hints=annotations,
        given=copied(name, dict(one.given)),
    )


def _unused(one: _Parts, results: list[str]) -> Iterator[str]:
    """Yield the members of a definition that mean nothing here."""
    yield from one.outside
    yield from (key for key in one.members if key not in _KNOWN)
    if one.members.get("strict"):  # capset validates every call, whether a schema is strict or not
        yield "strict"
    yield from results[1:]


def _text(name: str, key: str, given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise DefinitionError(f"{name}: {key}: a text was expected; got {given!r:.80}")
    return given


def names_here(originals: Iterable[str]) -> Mapping[str, str]:
    """Return each original name by its name here, in order.

    A name that models take stays as it is. Of any other, each character that they do not take is ``_`` here. A name
    that would be longer than 64, that has no letters or digits left, or that two would have ends in ``_`` and eight
    digits of the SHA-256 of the original. So a name does not depend on the order of the others.

    Raises ``DefinitionError`` for two equal originals, and for two names that are one in spite of their digits.
    """
    given = list(originals)
    for name, count in Counter(given).items():
        if count > 1:
            raise DefinitionError(f"{count} tools are called {name!r:.80}: give each a name of its own")
    found, clashes = distinct_names(given)
    for reason in clashes.values():
        raise DefinitionError(reason)
    return MappingProxyType({here: name for name, here in found.items()})


def distinct_names(originals: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names here by their originals, and of those that could only have another's name the reason.

    The originals differ. Of two that are one in spite of their digits, only an original that is that name has it.
    """
    plain = {name: _OTHER.sub("_", name) for name in originals}
    counts = Counter(plain.values())
    by_name: dict[str, list[str]] = {}
    for name, here in plain.items():
        is_taken = TOOL.fullmatch(name) is not None
        is_clear = is_taken or (counts[here] == 1 and len(here) <= _MAX and bool(here.strip("_-")))
        by_name.setdefault(here if is_clear else _marked(here, name), []).append(name)
    found: dict[str, str] = {}
    clashes: dict[str, str] = {}
    for name, here in ((name, here) for here, names in by_name.items() for name in names):
        others = [one for one in by_name[here] if one != name]
        if others and name != here:
            clashes[name] = f"{name!r:.80} and {others[0]!r:.80} would both be called {here!r}: rename one"
        else:
            found[name] = here
    order = {name: at for at, name in enumerate(plain)}
    return dict(sorted(found.items(), key=lambda item: order[item[0]])), clashes


def _marked(here: str, original: str) -> str:
    """Return a name that ends in digits of the original's hash."""
    digits = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    start = here[: _MAX - _DIGITS - 1].strip("_-") or "tool"
    return f"{start}_{digits}"

"""Agent files: YAML, JSON or TOML with an agent's prompt and its capabilities (spec 5, P4)."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from capset.adapters.agent_entries import refer
from capset.definitions.agents import Agent
from capset.definitions.misfits import misfits
from capset.errors import DefinitionError, Field
from capset.kernel.registry import Registry
from capset.wire.agents import AgentShape, CapabilityEntry

_MAX_BYTES: Final = 1_048_576
_HINT: Final = "the shortest agent file is, in YAML, the line: name: my-agent"


def read_agent_file(path: Path, registry: Registry) -> Agent:
    """Return the agent that a file describes.

    Raises ``DefinitionError`` for a file that cannot be read or parsed, and one that lists every field that does not
    fit, every capability that is not installed, and all that is chosen of one and cannot be.
    """
    suffix = path.suffix.lower()
    if suffix not in _PARSERS:
        raise DefinitionError(f"{path}: an agent file ends in {', '.join(_PARSERS)}")
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise DefinitionError(f"{path}: an agent file has at most {_MAX_BYTES} bytes")
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise DefinitionError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{path}: is not UTF-8 text, at byte {error.start}") from None
    try:
        data = _PARSERS[suffix](text, str(path))
    except RecursionError:
        raise DefinitionError(f"{path}: is nested too deeply") from None
    return build_agent(data, registry, str(path))


def build_agent(data: Any, registry: Registry, where: str) -> Agent:  # data is whatever the file held
    """Return the agent that plain data describes; ``where`` begins every error message."""
    if not isinstance(data, dict):
        raise DefinitionError(f"{where}: not an agent file: it must hold a mapping with a name", hint=_HINT)
    try:
        shape = AgentShape.model_validate(data)
    except ValidationError as error:
        given = cast("dict[str, Any]", data)
        fields = [*misfits(error, list(AgentShape.model_fields), given), *_entry_misfits(given, registry)]
        raise DefinitionError(_listed(f"{where}: not an agent file:", fields), fields=fields) from None
    return make_agent(shape, registry, where)


def make_agent(shape: AgentShape, registry: Registry, where: str, *, is_new: bool = False) -> Agent:
    """Return the agent of a shape. Raises ``DefinitionError``, naming everything in it that cannot be had.

    Where ``is_new``, that is what is coming soon too (spec 5, P3).
    """
    referred = refer(shape.entries(), registry, is_new=is_new)
    fields = [one.field for one in referred.misfits]
    try:
        agent = Agent(
            shape.name,
            description=shape.description,
            system_prompt=shape.system_prompt,
            instructions=shape.instructions,
            uses=referred.refs,
        )
    except DefinitionError as error:
        if not fields:
            raise DefinitionError(f"{where}: {error.message}", hint=error.hint) from None
        raise DefinitionError(_listed(f"{where}:", [*fields, error.message]), fields=fields) from None
    if fields:
        raise DefinitionError(_listed(f"{where}:", fields), fields=fields)
    return agent


def _listed(heading: str, problems: Iterable[Field | str]) -> str:
    return "\n".join([heading, *(f"  {one}" for one in problems)])


def _entry_misfits(data: Mapping[str, Any], registry: Registry) -> list[Field]:
    """Return what is wrong with those entries that are well formed, where something else is not."""
    entries = data.get("capabilities")
    if not isinstance(entries, list):
        return []
    formed: dict[int, CapabilityEntry] = {}
    for position, one in enumerate(cast("list[Any]", entries)):
        with suppress(ValidationError):
            formed[position] = CapabilityEntry.model_validate({"id": one} if isinstance(one, str) else one)
    places = list(formed)
    referred = refer(formed.values(), registry)
    return [replace(one, position=places[one.position]).field for one in referred.misfits]


def _parse_yaml(text: str, where: str) -> Any:
    # Only YAML files pay for the parser.
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses a key that stands twice; by itself it would keep the last."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # keys of any type
            known: set[str] = set()
            for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
                if key.value in known:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands there twice", problem_mark=key.start_mark)
                known.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - it is a SafeLoader
    except yaml.YAMLError as error:
        mark = cast("Any", getattr(error, "problem_mark", None))
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise DefinitionError(f"{where}{place}: not YAML: {problem}") from None
    except (ValueError, LookupError, AttributeError):
        # The parser lets out whatever a value such as the date 2024-13-45 makes Python raise.
        raise DefinitionError(f"{where}: not YAML: a number, a date or a tagged value cannot be read") from None


def _parse_json(text: str, where: str) -> Any:
    def distinct(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if twice := [name for name, count in Counter(name for name, _ in members).items() if count > 1]:
            raise DefinitionError(f"{where}: not JSON: {twice[0]!r} stands there twice")
        return dict(members)

    try:
        return json.loads(text, object_pairs_hook=distinct)
    except json.JSONDecodeError as error:
        raise DefinitionError(f"{where}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except ValueError as error:
        raise DefinitionError(f"{where}: not JSON: {error}") from None


def _parse_toml(text: str, where: str) -> Any:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or that of an integer without end
        raise DefinitionError(f"{where}: not TOML: {error}") from None


_PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
    ".json": _parse_json,
    ".toml": _parse_toml,
}

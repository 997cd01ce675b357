"""Resolves an agent's capability entries to references to installed capabilities (spec 1, C1, C4, C10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, cast

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from capset.definitions.capabilities import parse_config
from capset.definitions.references import AnyRef
from capset.errors import DefinitionError, Field, NotFound, unknown
from capset.kernel.registry import Registry
from capset.schemas.strict_json import MAX_SIZE, size_of
from capset.schemas.validation_errors import validation_fields
from capset.wire.agents import CapabilityEntry, Entry, SubAgentEntry


class HasCapabilities(Protocol):
    """The shape of an agent, or of a configuration file."""

    capabilities: list[Entry]
    agents: list[str | SubAgentEntry]


@dataclass(frozen=True, slots=True)
class EntryMismatch:
    """An invalid entry: its position and id, the invalid member (``""`` for the entry itself), and the expectation."""

    position: int
    id: str
    place: str
    expected: str
    did_you_mean: str | None = None

    @property
    def field(self) -> Field:
        """The mismatch as a validation error of an agent's field."""
        place = f".{self.place}" if self.place else ""
        return Field(f"capabilities.{self.position}{place}", self.expected, self.did_you_mean)


@dataclass(frozen=True, slots=True)
class Referred:
    """The references of capability entries, and all mismatches.

    The references omit every invalid part: a capability, a preset, a config or a name.
    """

    refs: tuple[AnyRef, ...]
    misfits: tuple[EntryMismatch, ...]


def refer(entries: Iterable[CapabilityEntry], registry: Registry, *, is_new: bool = False) -> Referred:
    """Return the references of capability entries. Aliases are resolved.

    With ``is_new``, a capability with the status ``coming_soon`` is also a mismatch: it cannot be used yet.
    """
    refs: dict[str, AnyRef] = {}
    wrong: list[EntryMismatch] = []
    for position, entry in enumerate(entries):
        try:
            capability = registry.get(entry.id)
        except NotFound as error:
            wrong.append(EntryMismatch(position, entry.id, "", error.message))
            continue
        if capability.name in refs:
            alias = "" if entry.id == capability.name else f": {entry.id!r} is an alias for it"
            wrong.append(EntryMismatch(position, entry.id, "", f"{capability.name!r} is listed twice{alias}"))
            continue
        if is_new and capability.status == "coming_soon":
            wrong.append(
                EntryMismatch(position, entry.id, "", f"{capability.name!r} is coming soon and cannot be used yet")
            )
        chosen, problems = _chosen(capability.ref, entry)
        refs[capability.name] = chosen
        wrong += [
            EntryMismatch(position, entry.id, problem.path, problem.expected, problem.did_you_mean)
            for problem in problems
        ]
    return Referred(tuple(refs.values()), tuple(wrong))


def well_formed_entries(data: Mapping[str, Any]) -> Mapping[int, CapabilityEntry]:  # any JSON
    """Return the well-formed entries of ``capabilities`` in a file by their positions."""
    entries = data.get("capabilities")
    well_formed: dict[int, CapabilityEntry] = {}
    for position, entry in enumerate(cast("list[Any]", entries) if isinstance(entries, list) else ()):
        with suppress(ValidationError):
            well_formed[position] = CapabilityEntry.model_validate({"id": entry} if isinstance(entry, str) else entry)
    return well_formed


def capability_ids(shape: HasCapabilities) -> Iterator[str]:
    """Yield the ids that ``capabilities`` lists, in an agent and in the agents defined within it."""
    yield from (entry if isinstance(entry, str) else entry.id for entry in shape.capabilities)
    for sub_agent in shape.agents:
        if not isinstance(sub_agent, str) and not isinstance(sub_agent.agent, str):
            yield from capability_ids(sub_agent.agent)


def _chosen(ref: AnyRef, entry: CapabilityEntry) -> tuple[AnyRef, list[Field]]:
    """Return a reference with the valid options of an entry, and the errors of the invalid ones."""
    wrong: list[Field] = []
    for name, is_on in (entry.presets or {}).items():
        if name in ref.base.presets:
            ref = ref.with_presets(**{name: is_on})
        else:
            wrong.append(Field(f"presets.{name}", unknown("preset", name, ref.base.presets)))
    if entry.config is not None:
        ref, problems = _configured(ref, entry.config)
        wrong += problems
    if entry.prefix is not None:
        try:
            ref = ref.with_names(prefix=entry.prefix)
        except DefinitionError as error:
            wrong.append(Field("prefix", _message_without_name(ref, error)))
    for old, new in (entry.rename or {}).items():
        try:
            ref = ref.with_names(rename={old: new})
        except DefinitionError as error:
            wrong.append(Field(f"rename.{old}", _message_without_name(ref, error)))
    return ref, wrong


def _configured(ref: AnyRef, config: Mapping[str, Any]) -> tuple[AnyRef, list[Field]]:
    model = ref.base.config
    if model is None:
        return ref, [Field("config", f"the capability {ref.name!r} has no config")]
    try:
        if size_of(config) > MAX_SIZE:
            return ref, [Field("config", f"a config may have at most {MAX_SIZE} values and characters")]
        text = to_json(config)
        from_json(text, allow_inf_nan=False)
    except (ValueError, RecursionError):  # pydantic's serialisation errors are ValueErrors
        return ref, [Field("config", "must be JSON data: strings, finite numbers, true, false, null, lists, mappings")]
    try:
        return ref.with_config(parse_config(model, text)), []
    except ValidationError as error:
        fields = validation_fields(error, list(model.model_fields), config)
        return ref, [Field(_place(field.path), field.expected, field.did_you_mean) for field in fields]


def _place(path: str) -> str:
    return "config" if path == "(arguments)" else f"config.{path}"


def _message_without_name(ref: AnyRef, error: DefinitionError) -> str:
    return error.message.removeprefix(f"capability {ref.name!r}: ")

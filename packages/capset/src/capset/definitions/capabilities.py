"""Capabilities, and their config as JSON: how it is stored and loaded (spec 1, C1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from typing_extensions import TypeVar, Unpack

from capset.definitions.callables import is_async
from capset.definitions.governance.limits import Limit, checked_limits
from capset.definitions.identity import Definition
from capset.definitions.names import (
    CAPABILITY,
    PRESET,
    SECRET,
    checked_list,
    checked_mapping,
    checked_name,
    checked_optional,
    checked_text,
    replace_tool_names,
    sealed,
)
from capset.definitions.parts import Part, PartOptions, Preset, make_part
from capset.definitions.references import AnyRef, CapabilityRef, DynamicUses, checked_uses
from capset.definitions.resources import Documents
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.mcp_offers import McpOffer, checked_offers
from capset.definitions.tools.options import Limits, refuse_unknown
from capset.errors import DefinitionError, unknown
from capset.schemas.schema import Schema, schema_of

if TYPE_CHECKING:
    from capset.definitions.calls.contexts import Context


@lru_cache(1_000)
def config_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a config, strict and closed like that of arguments. Raises ``DefinitionError``."""
    return schema_of(f"the config {model.__name__}", model, "validation")


def parse_config(model: type[BaseModel], text: bytes) -> BaseModel:
    """Parse a config from JSON text. Raises pydantic's ``ValidationError``."""
    return config_schema(model).check_json(text)


def dump_config(config: BaseModel) -> dict[str, Any]:  # JSON data
    """Return a config as JSON data from which an equal config can be loaded.

    Raises ``ValueError`` if that is impossible, for example because the model would refuse the config's own values.
    """
    text = config.model_dump_json(by_alias=True, round_trip=True, warnings="error").encode()
    try:
        restored = parse_config(type(config), text)
    except ValidationError as error:
        raise ValueError(f"a {type(config).__name__} cannot be loaded from its own JSON") from error
    if restored != config:
        raise ValueError(f"a {type(config).__name__} changes when it is written as JSON and loaded again")
    return from_json(text, allow_inf_nan=False)


Status = Literal["available", "coming_soon", "deprecated", "retired"]
Risk = Literal["low", "medium", "high"]

H = TypeVar("H", default=None)
"""The type of ``ctx.use(capability)``."""
C = TypeVar("C", default=None)
"""The type of ``ctx.config(capability)``."""


@sealed
@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, init=False)
class Capability(Definition, Generic[H, C]):
    """A named bundle of instructions, context, tools, data, files and helpers, in switchable presets.

    Frozen, and compared by identity. ``part`` is its contribution regardless of presets. With the status
    ``coming_soon`` or ``retired``, it contributes nothing to an agent, and a notice says so. On the wire, ``name`` and
    ``title`` are called ``id`` and ``name``.
    """

    name: str
    title: str
    description: str
    status: Status
    icon: str | None
    category: str | None
    risk: Risk
    version: str | None
    aliases: tuple[str, ...]
    uses: tuple[AnyRef | DynamicUses, ...]
    part: Part
    presets: Mapping[str, Preset]
    default: tuple[str, ...]
    helpers: Callable[[Context], H] | None
    config: type[C] | None
    secrets: tuple[str, ...]
    expose: tuple[str, ...]
    mcp: tuple[McpOffer, ...]
    limits: tuple[Limit, ...]
    readiness: Callable[[], Mapping[str, str]] | None
    origin: Capability[H, C] | None
    """The capability of which this is a narrower form (``narrow_capability``); lookups of that one find this one."""

    def __init__(
        self,
        name: str,
        *,
        title: str | None = None,
        description: str = "",
        status: Status = "available",
        icon: str | None = None,
        category: str | None = None,
        risk: Risk = "low",
        version: str | None = None,
        aliases: Iterable[str] = (),
        uses: Iterable[Capability[Any, Any] | CapabilityRef[Any, Any] | DynamicUses] | DynamicUses = (),
        presets: Mapping[str, Preset] | None = None,
        default: Iterable[str] | None = None,
        helpers: Callable[[Context], H] | None = None,
        config: type[C] | None = None,
        secrets: Iterable[str] = (),
        expose: Iterable[str] = (),
        mcp: Iterable[McpOffer] = (),
        limits: Limits = (),
        readiness: Callable[[], Mapping[str, str]] | None = None,
        **options: Unpack[PartOptions],
    ) -> None:
        """Check and freeze every argument. Raises ``DefinitionError``, naming the capability and the field.

        Args:
            uses: the capabilities that it needs, or functions that choose them at run time.
            presets: the parts that can be switched on and off, in the order in which they apply.
            default: the presets that are on unless a reference says otherwise; all of them if left out.
            helpers: makes the result of ``ctx.use(capability)``: code, not tools, and not governed.
            config: a pydantic model of the options that ``with_config(…)`` sets.
            secrets: the names that ``ctx.secret(name)`` may ask for; never hashed, stored or logged.
            expose: its resources and state fields that clients may read; none if left out.
            mcp: the tools that are also offered to MCP clients as prompts and resources; never hashed.
            limits: limits on the calls of all its tools together, in addition to those of each tool.
            readiness: returns facts by name, for operators, about what it works with on this machine; it may take a
                second, is called in a thread, and is never hashed.
            options: its own part, regardless of presets: see ``PartOptions``.
        """
        refuse_unknown(Capability.__init__, options, PartOptions)
        owner = f"capability {name!r}"
        checked_name("a capability's name", name, CAPABILITY)
        for label, value, allowed in (("status", status, get_args(Status)), ("risk", risk, get_args(Risk))):
            if value not in allowed:
                raise DefinitionError(f"{owner}: {label} must be one of {allowed}; got {value!r}")
        part = make_part(owner, **options)
        preset_map = _checked_presets(owner, {} if presets is None else presets)
        if part.policies and not any(
            contributor.members for contributor in (part, *(preset.part for preset in preset_map.values()))
        ):
            raise DefinitionError(
                f"{owner}: policies gate the tools that it brings, and it brings none",
                hint="an agent's own policies gate every tool that the agent has",
            )
        store = object.__setattr__
        store(self, "name", name)
        store(self, "title", checked_optional(f"{owner}: title", title) or name.replace("_", " ").title())
        store(self, "description", checked_text(f"{owner}: description", description))
        store(self, "status", status)
        store(self, "icon", checked_optional(f"{owner}: icon", icon))
        store(self, "category", checked_optional(f"{owner}: category", category))
        store(self, "risk", risk)
        store(self, "version", checked_optional(f"{owner}: version", version))
        store(self, "aliases", _checked_aliases(owner, name, aliases))
        store(self, "uses", checked_uses(owner, uses))
        store(self, "part", part)
        store(self, "presets", preset_map)
        store(self, "default", _checked_default(owner, preset_map, default))
        store(self, "helpers", _checked_helpers(owner, helpers))
        store(self, "config", _checked_config(owner, config))
        store(self, "secrets", _checked_secrets(owner, secrets))
        store(self, "expose", _checked_expose(owner, expose, (part, *(preset.part for preset in preset_map.values()))))
        store(self, "mcp", checked_offers(owner, mcp, self.every_tool))
        store(self, "limits", checked_limits(owner, limits))
        store(self, "readiness", _checked_readiness(owner, readiness))
        store(self, "origin", None)

    def __repr__(self) -> str:
        return f"Capability({self.name!r})"

    @property
    def contributes(self) -> bool:
        """Whether it contributes anything to an agent."""
        return self.status in ("available", "deprecated")

    @property
    def every_tool(self) -> tuple[AnyTool, ...]:
        """Its own tools and those of all its presets, each once."""
        return tuple(dict.fromkeys(tool for part in self.parts.values() for tool in part.tools))

    @property
    def parts(self) -> Mapping[str | None, Part]:
        """Its own part, under ``None``, and those of its presets, in order."""
        return {None: self.part} | {name: preset.part for name, preset in self.presets.items()}

    @property
    def ref(self) -> CapabilityRef[H, C]:
        """A reference without any choices."""
        return CapabilityRef(self)

    def with_presets(self, /, **choices: bool) -> CapabilityRef[H, C]:
        """Return a reference with these presets on (``True``) or off; see ``CapabilityRef.with_presets``."""
        return self.ref.with_presets(**choices)

    def with_config(self, config: C) -> CapabilityRef[H, C]:
        """Return a reference with this config; see ``CapabilityRef.with_config``."""
        return self.ref.with_config(config)

    def with_names(self, *, prefix: str | None = None, rename: Mapping[str, str] | None = None) -> CapabilityRef[H, C]:
        """Return a reference that gives its tools other names; see ``CapabilityRef.with_names``."""
        return self.ref.with_names(prefix=prefix, rename=rename)


AnyCapability = Capability[Any, Any]
"""A capability whose helpers and config do not matter here."""


def _checked_presets(owner: str, presets: Mapping[str, Preset]) -> Mapping[str, Preset]:
    mapping = checked_mapping(f"{owner}: presets", presets)
    for name, preset in mapping.items():
        checked_name(f"{owner}: a preset's name", name, PRESET)
        if not isinstance(preset, Preset):
            raise DefinitionError(f"{owner}, preset {name!r}: {preset!r} is not a Preset")
    return MappingProxyType(mapping)


def _checked_default(owner: str, presets: Mapping[str, Preset], default: Iterable[str] | None) -> tuple[str, ...]:
    if default is None:
        return tuple(presets)
    default_names = set(_name_list(f"{owner}: default", default))
    for name in default_names:
        if name not in presets:
            raise DefinitionError(f"{owner}: default: {unknown('preset', str(name), presets)}")
    return tuple(name for name in presets if name in default_names)


def _checked_aliases(owner: str, name: str, aliases: Iterable[str]) -> tuple[str, ...]:
    names = _name_list(f"{owner}: aliases", aliases)
    distinct = tuple(dict.fromkeys(checked_name(f"{owner}: an alias", alias, CAPABILITY) for alias in names))
    if name in distinct:
        raise DefinitionError(f"{owner}: an alias must differ from its name")
    return distinct


def _checked_helpers(owner: str, helpers: object) -> object:
    if helpers is not None and not callable(helpers):
        raise DefinitionError(f"{owner}: helpers is a class or a function of the context; got {helpers!r}")
    if helpers is not None and is_async(helpers):
        raise DefinitionError(f"{owner}: helpers must be a plain function: ctx.use() does not wait")
    return helpers


def _checked_readiness(owner: str, readiness: object) -> object:
    if readiness is not None and (not callable(readiness) or is_async(readiness)):
        raise DefinitionError(f"{owner}: readiness is a plain function without arguments; got {readiness!r}")
    return readiness


def _checked_config(owner: str, config: object) -> object:
    if config is not None and not (isinstance(config, type) and issubclass(config, BaseModel)):
        raise DefinitionError(f"{owner}: config is a pydantic model class; got {config!r}")
    if config is not None:
        config_schema(config).refuse_secrets(f"{owner}: config")
    return config


def _checked_expose(owner: str, expose: Iterable[str], parts: Iterable[Part]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(_name_list(f"{owner}: expose", expose)))
    available: set[str] = set()
    for part in parts:
        available |= {resource.name for resource in part.resources if not isinstance(resource, Documents)}
        available |= {field for model in part.state.values() for field in model.model_fields}
    for name in names:
        if name not in available:
            raise DefinitionError(f"{owner}: expose: {unknown('resource or state field', str(name), available)}")
    return names


def _checked_secrets(owner: str, secrets: Iterable[str]) -> tuple[str, ...]:
    names = _name_list(f"{owner}: secrets", secrets)
    return tuple(dict.fromkeys(checked_name(f"{owner}: a secret's name", name, SECRET) for name in names))


def _name_list(label: str, names: Iterable[str]) -> list[Any]:
    """Return names as a list; their order is irrelevant, so a set is allowed, and a single string is one name."""
    match names:
        case str():
            return [names]
        case set() | frozenset():
            return sorted(names, key=str)
        case _:
            return checked_list(label, names)


T = TypeVar("T", AnyCapability, Preset)


def narrow_capability(capability: AnyCapability, tools: Mapping[AnyTool, Sequence[AnyTool]]) -> AnyCapability:
    """Return a copy of a capability with only these tools, each replaced by the tools that it maps to.

    Instructions use the names of the replacements, and everything else stays the same; ``ctx.config(capability)`` and
    the like accept either object. Raises ``DefinitionError`` for a tool inside a toolkit, since the toolkit's policies
    apply to it.
    """
    members = {member for part in capability.parts.values() for member in part.members}
    if nested := [tool.name for tool in tools if tool not in members]:
        raise DefinitionError(f"the tool {nested[0]!r} of {capability.name!r} is in a toolkit and cannot be narrowed")
    presets = {name: _copy(preset, {"part": _part(preset.part, tools)}) for name, preset in capability.presets.items()}
    changed = {
        "part": _part(capability.part, tools),
        "presets": MappingProxyType(presets),
        "origin": capability.origin or capability,
    }
    return _copy(capability, changed)


def _part(part: Part, tools: Mapping[AnyTool, Sequence[AnyTool]]) -> Part:
    members = tuple(other for tool in part.tools for other in tools.get(tool, ()))
    forms = {tool.name: [form.name for form in others] for tool, others in tools.items()}
    names = {name: form_names[0] for name, form_names in forms.items() if form_names and name not in form_names}
    instructions = tuple(replace_tool_names(text, names) for text in part.instructions)
    return replace(part, members=members, tools=members, instructions=instructions)


def _copy(original: T, changed: Mapping[str, object]) -> T:
    """Return a changed copy of a frozen object whose constructor does not take its fields."""
    clone = object.__new__(type(original))
    for field in fields(original):
        object.__setattr__(clone, field.name, changed.get(field.name, getattr(original, field.name)))
    return clone

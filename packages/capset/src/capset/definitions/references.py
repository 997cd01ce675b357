"""The uses of a capability: directly, by a reference with choices, or by a function at run time (C4, C27)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic

from pydantic import BaseModel
from typing_extensions import TypeVar

from capset.definitions.callables import checked_function, is_async
from capset.definitions.identity import Definition
from capset.definitions.names import TOOL, checked_list, checked_mapping, checked_name, checked_text, sealed
from capset.errors import DefinitionError, unknown

if TYPE_CHECKING:
    from capset.definitions.calls.contexts import Context
    from capset.definitions.capabilities import Capability

H = TypeVar("H", default=None)
C = TypeVar("C", default=None)


@sealed
@dataclass(frozen=True, eq=False, slots=True)
class CapabilityRef(Definition, Generic[H, C]):
    """A capability with choices; ``with_presets``, ``with_config`` and ``with_names`` each return a new one.

    ``base`` is the capability itself. ``presets`` are the explicit choices only; ``config`` is ``None`` if the
    model's defaults apply; ``prefix`` and ``rename`` are ``None`` if not given.
    """

    base: Capability[H, C]
    presets: Mapping[str, bool] = field(default_factory=dict[str, bool])
    config: C | None = None
    prefix: str | None = None
    rename: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Check and freeze every choice. Raises ``DefinitionError``."""
        from capset.definitions.capabilities import Capability  # it imports this module

        if not isinstance(self.base, Capability):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
            raise DefinitionError(f"a reference is to a Capability; got {self.base!r:.80}")
        store = object.__setattr__
        store(self, "presets", _checked_presets(self.base, self.presets))
        if self.config is not None:
            store(self, "config", _checked_config(self.base, self.config))
        _check_prefix(self.base, self.prefix)
        if self.rename is not None:
            store(self, "rename", _checked_names(self.base, self.rename))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by value: only the capability itself can be pickled by name."""
        rename = None if self.rename is None else dict(self.rename)
        return type(self), (self.base, dict(self.presets), self.config, self.prefix, rename)

    def __repr__(self) -> str:
        options = [f"{name}={is_on}" for name, is_on in self.presets.items()]
        options += [f"{name}={value!r}" for name in ("config", "prefix", "rename") if (value := getattr(self, name))]
        return f"CapabilityRef({self.base.name!r}{''.join(f', {option}' for option in options)})"

    @property
    def name(self) -> str:
        """The capability's name."""
        return self.base.name

    def with_presets(self, /, **choices: bool) -> CapabilityRef[H, C]:
        """Return a reference with these presets switched on (``True``) or off, overriding earlier choices.

        Raises ``DefinitionError`` for a preset that the capability does not have, and a choice that is not a bool.
        """
        return replace(self, presets={**self.presets, **choices})

    def with_config(self, config: C) -> CapabilityRef[H, C]:
        """Return a reference with this config. Raises ``DefinitionError`` unless it is an instance of the model."""
        return replace(self, config=_checked_config(self.base, config))

    def with_names(self, *, prefix: str | None = None, rename: Mapping[str, str] | None = None) -> CapabilityRef[H, C]:
        """Return a reference that gives its tools other names: each prefixed with ``prefix``, or as ``rename`` maps it.

        ``rename`` maps a tool's own name to the whole new one. Raises ``DefinitionError`` for a tool that the
        capability does not have, and an invalid name.
        """
        renamed = self.rename if rename is None else {**(self.rename or {}), **_checked_names(self.base, rename)}
        return replace(self, prefix=self.prefix if prefix is None else prefix, rename=renamed)


def _checked_presets(base: Capability[Any, Any], choices: object) -> Mapping[str, bool]:
    owner = f"capability {base.name!r}"
    presets = checked_mapping(f"{owner}: presets", choices)
    for name, is_on in presets.items():
        if name not in base.presets:
            raise DefinitionError(f"{owner}: {unknown('preset', str(name), base.presets)}")
        if not isinstance(is_on, bool):
            raise DefinitionError(f"{owner}, preset {name!r}: True or False; got {is_on!r}")
    return MappingProxyType(presets)


def _checked_config(base: Capability[Any, C], config: C) -> C:
    model = base.config
    if model is None:
        raise DefinitionError(f"capability {base.name!r} has no config")
    if not isinstance(config, model):
        raise DefinitionError(
            f"capability {base.name!r}: its config is a {model.__name__}; got {type(config).__name__}"
        )
    # The caller may still change its own object.
    return config.model_copy(deep=True) if isinstance(config, BaseModel) else config


def _check_prefix(base: Capability[Any, Any], prefix: object) -> None:
    if prefix is None:
        return
    owner = f"capability {base.name!r}"
    checked_text(f"{owner}: prefix", prefix)
    for tool in base.every_tool:
        checked_name(f"{owner}: {tool.name!r} with its prefix", f"{prefix}{tool.name}", TOOL)


def _checked_names(base: Capability[Any, Any], rename: object) -> Mapping[str, str]:
    owner, tool_names = f"capability {base.name!r}", [tool.name for tool in base.every_tool]
    renamed = checked_mapping(f"{owner}: rename", rename)
    for old, new in renamed.items():
        if old not in tool_names:
            raise DefinitionError(f"{owner}: {unknown('tool', str(old), tool_names)}")
        checked_name(f"{owner}: the new name of {old!r}", new, TOOL)
    return MappingProxyType(renamed)


AnyRef = CapabilityRef[Any, Any]
"""A reference whose helpers and config do not matter here."""
DynamicUses = Callable[["Context"], Iterable["Capability[Any, Any] | CapabilityRef[Any, Any]"]]
"""A pure function that returns further capabilities to use; called before every run and every model step."""


def checked_uses(owner: str, uses: object) -> tuple[AnyRef | DynamicUses, ...]:
    """Return every entry as a reference or a function; a single function may stand for the whole list.

    Raises ``DefinitionError`` for anything else.
    """
    if callable(uses):
        return (_checked_dynamic_uses(owner, uses),)
    entries = checked_list(f"{owner}: uses", uses)
    return tuple(_checked_dynamic_uses(owner, entry) if callable(entry) else as_ref(owner, entry) for entry in entries)


def _checked_dynamic_uses(owner: str, entry: Callable[..., Any]) -> DynamicUses:
    """Check a function among ``uses``. Raises ``DefinitionError`` for a callable that cannot be one."""
    if inspect.isclass(entry):
        raise DefinitionError(f"{owner}: uses takes Capability objects; got the class {entry.__name__}")
    name = getattr(entry, "__name__", type(entry).__name__)
    if is_maker(entry):
        raise DefinitionError(
            f"{owner}: uses has {name!r} itself, which makes capabilities", hint=f"call it: {name}(…)"
        )
    if is_async(entry):
        raise DefinitionError(
            f"{owner}: the dynamic uses {name!r} must be a plain function, not an async one: it decides without waiting"
        )
    return checked_function(f"{owner}: the dynamic uses {name!r}", entry, "the context")


def is_maker(function: Callable[..., Any]) -> bool:
    """Whether a function is marked by ``@parameterised``."""
    return getattr(function, "makes_capabilities", False) is True


def as_ref(owner: str, entry: object) -> AnyRef:
    """Return a capability, or a reference to one, as a reference. Raises ``DefinitionError`` for anything else."""
    from capset.definitions.capabilities import Capability  # it imports this module

    match entry:
        case CapabilityRef():
            return entry  # pyright: ignore[reportUnknownVariableType]  # its helpers may have any type
        case Capability():
            return CapabilityRef(entry)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            raise DefinitionError(f"{owner}: uses takes Capability objects; got {entry!r}")

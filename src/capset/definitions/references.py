"""The uses of a capability: as it is, by a reference that configures it, or by a function that decides (C4, C27)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic

from pydantic import BaseModel
from typing_extensions import TypeVar

from capset.definitions.callables import checked_function, is_async
from capset.definitions.names import TOOL, checked, listed, mapped, sealed
from capset.errors import DefinitionError, unknown

if TYPE_CHECKING:
    from capset.definitions.capabilities import Capability
    from capset.definitions.contexts import Context

H = TypeVar("H", default=None)
C = TypeVar("C", default=None)


@sealed
@dataclass(frozen=True, eq=False, slots=True)
class CapabilityRef(Generic[H, C]):
    """A capability with choices; ``with_presets``, ``with_config`` and ``with_names`` each return a new one.

    ``base`` is the capability itself. ``presets`` are the explicit choices only; ``config`` is ``None`` if the
    model's defaults apply; ``prefix`` and ``rename`` are ``None`` if not given.
    """

    base: Capability[H, C]
    presets: Mapping[str, bool] = field(default_factory=dict[str, bool])
    config: C | None = None
    prefix: str | None = None
    rename: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        said = [f"{name}={is_on}" for name, is_on in self.presets.items()]
        said += [f"{name}={value!r}" for name in ("config", "prefix", "rename") if (value := getattr(self, name))]
        return f"CapabilityRef({self.base.name!r}{''.join(f', {one}' for one in said)})"

    @property
    def name(self) -> str:
        """The capability's name."""
        return self.base.name

    def with_presets(self, /, **choices: bool) -> CapabilityRef[H, C]:
        """Return a reference with these presets switched on (``True``) or off, overriding earlier choices.

        Raises ``DefinitionError`` for a preset that the capability does not have, and a choice that is not a bool.
        """
        for name, is_on in choices.items():
            if name not in self.base.presets:
                raise DefinitionError(f"capability {self.name!r}: {unknown('preset', name, self.base.presets)}")
            if not isinstance(is_on, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
                raise DefinitionError(f"capability {self.name!r}, preset {name!r}: True or False; got {is_on!r}")
        return replace(self, presets=MappingProxyType({**self.presets, **choices}))

    def with_config(self, config: C) -> CapabilityRef[H, C]:
        """Return a reference with this config. Raises ``DefinitionError`` unless it is an instance of the model."""
        model = self.base.config
        if model is None:
            raise DefinitionError(f"capability {self.name!r} has no config")
        if not isinstance(config, model):
            raise DefinitionError(
                f"capability {self.name!r}: its config is a {model.__name__}; got {type(config).__name__}"
            )
        # The caller's own object may still be changed.
        frozen = config.model_copy(deep=True) if isinstance(config, BaseModel) else config
        return replace(self, config=frozen)

    def with_names(self, *, prefix: str | None = None, rename: Mapping[str, str] | None = None) -> CapabilityRef[H, C]:
        """Return a reference that gives its tools other names: each prefixed with ``prefix``, or as ``rename`` maps it.

        ``rename`` maps a tool's own name to the whole new one. Raises ``DefinitionError`` for a tool that the
        capability does not have, and an invalid name.
        """
        owner, own = f"capability {self.name!r}", [tool.name for tool in self.base.every_tool]
        renamed = {} if rename is None else mapped(f"{owner}: rename", rename)
        for old, new in renamed.items():
            if old not in own:
                raise DefinitionError(f"{owner}: {unknown('tool', str(old), own)}")
            checked(f"{owner}: the new name of {old!r}", new, TOOL)
        for name in own if prefix is not None else ():
            checked(f"{owner}: {name!r} with its prefix", f"{prefix}{name}", TOOL)
        merged = None if rename is None and self.rename is None else {**(self.rename or {}), **renamed}
        return replace(
            self,
            prefix=self.prefix if prefix is None else prefix,
            rename=None if merged is None else MappingProxyType(merged),
        )


AnyRef = CapabilityRef[Any, Any]
"""A reference whose helpers and config do not matter here."""
DynamicUses = Callable[["Context"], Iterable["Capability[Any, Any] | CapabilityRef[Any, Any]"]]
"""A pure function that decides, before every run and every model step, on further capabilities to use."""


def checked_uses(owner: str, uses: object) -> tuple[AnyRef | DynamicUses, ...]:
    """Return every entry as a reference or a function; a single function may stand for the whole list.

    Raises ``DefinitionError`` for anything else.
    """
    if callable(uses):
        return (_function(owner, uses),)
    entries = listed(f"{owner}: uses", uses)
    return tuple(_function(owner, one) if callable(one) else as_ref(owner, one) for one in entries)


def _function(owner: str, entry: Callable[..., Any]) -> DynamicUses:
    """Return a function that decides at run time. Raises ``DefinitionError`` for callables meant otherwise."""
    if inspect.isclass(entry):
        raise DefinitionError(f"{owner}: uses takes Capability objects; got the class {entry.__name__}")
    name = getattr(entry, "__name__", type(entry).__name__)
    if is_maker(entry):
        raise DefinitionError(
            f"{owner}: uses has {name!r} itself, which makes capabilities", hint=f"call it: {name}(…) is one"
        )
    if is_async(entry):
        raise DefinitionError(
            f"{owner}: the dynamic uses {name!r} must be a plain function, not an async one: it decides without waiting"
        )
    return checked_function(f"{owner}: the dynamic uses {name!r}", entry, "the context")


def is_maker(function: Callable[..., Any]) -> bool:
    """Whether a function makes capabilities, as ``@parameterised`` marks it."""
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

"""What the references to one capability say of it together: the one nearest the root wins (spec 1, C6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from capset.definitions.capabilities import AnyCapability
from capset.definitions.references import AnyRef
from capset.errors import DefinitionError, PresetConflict

Path = tuple[str, ...]
"""The names on the way from the root, the root's first."""
_Key = tuple[str, str]
"""What a choice is about: ``preset`` and its name, ``config``, ``prefix``, or ``rename`` and the tool's own name."""


@dataclass(frozen=True, slots=True)
class _Said:
    depth: int
    value: Any  # of the type that its key has
    path: Path


class Choices:
    """The explicit choices of every capability that is reached from some references."""

    def __init__(
        self,
        roots: Iterable[tuple[AnyRef, Path]],
        *,
        depth: int = 1,
        known: Collection[AnyCapability] = (),
        static: Choices | None = None,
    ) -> None:
        """Walk by levels, each capability once, so that each reference is met at its least depth.

        Of dynamic references ``depth`` is that of the first, ``known`` are the capabilities whose own references have
        been walked before, and ``static`` has the choices of then: a nearer one of those stands against a deeper one
        here that would take something away.

        Raises ``PresetConflict`` for two that disagree at one depth, naming both ways.
        """
        self._said: dict[AnyCapability, dict[_Key, _Said]] = {}
        self._static = static
        level = list(roots)
        while level:
            below: list[tuple[AnyRef, Path]] = []
            for ref, path in level:
                is_new = ref.base not in self._said and ref.base not in known
                self._take(ref, depth, path)
                if is_new and ref.base.contributes:
                    way = (*path, ref.name)
                    below += [(one, way) for one in ref.base.uses if not callable(one)]
            level, depth = below, depth + 1

    def presets(self, capability: AnyCapability) -> Mapping[str, bool]:
        """Return the presets that somebody switched on or off."""
        return {name: one.value for (what, name), one in self._of(capability).items() if what == "preset"}

    def config(self, capability: AnyCapability) -> Any:
        """Return the capability's config, or its defaults; ``None`` where it has none.

        Raises ``DefinitionError`` for a config that has no defaults and was not given.
        """
        if (said := self._of(capability).get(("config", ""))) is not None or capability.config is None:
            return said and said.value
        try:
            return capability.config()
        except ValidationError as error:
            missing = ", ".join(str(problem["loc"][0]) for problem in error.errors() if problem["loc"])
            raise DefinitionError(
                f"capability {capability.name!r} needs a config: {missing or 'its defaults do not fit'}",
                hint=f"use {capability.name}.with_config({capability.config.__name__}(…))",
            ) from None

    def names(self, capability: AnyCapability) -> Mapping[str, str]:
        """Return the name of every tool in this composition, by its own name."""
        said, prefix = self._of(capability), self.prefix(capability)
        own = [tool.name for tool in capability.every_tool]
        return MappingProxyType(
            {name: said["rename", name].value if ("rename", name) in said else prefix + name for name in own}
        )

    def prefix(self, capability: AnyCapability) -> str:
        """Return what stands before its tools' names, if anything."""
        said = self._of(capability).get(("prefix", ""))
        return said.value if said else ""

    def has(self, capability: AnyCapability, what: str) -> bool:
        """Whether anybody said something of this kind about a capability."""
        return any(key[0] == what for key in self._of(capability))

    def __contains__(self, capability: object) -> bool:
        return capability in self._said

    def _of(self, capability: AnyCapability) -> Mapping[_Key, _Said]:
        return self._said.get(capability, {})

    def _take(self, ref: AnyRef, depth: int, path: Path) -> None:
        known = self._said.setdefault(ref.base, {})
        for key, value in _explicit(ref).items():
            nearer = self._static and self._static._of(ref.base).get(key)
            if nearer and nearer.depth < depth and not (key[0] == "preset" and value):
                continue
            first = known.setdefault(key, _Said(depth, value, path))
            if first.depth == depth and not _equal(first.value, value):
                what = " ".join(part for part in key if part)
                if first.path == path:
                    raise PresetConflict(
                        f"{path[-1]!r} names the capability {ref.name!r} twice in its uses, and says two things of its "
                        f"{what}: {_told(first.value)} and {_told(value)}",
                        hint="keep one of the two entries",
                    )
                raise PresetConflict(
                    f"capability {ref.name!r}, {what}: {_told(first.value)} by {' → '.join(first.path)}, "
                    f"{_told(value)} by {' → '.join(path)}",
                    hint=f"let the root choose: it can use {ref.name} with its own choice, which wins",
                )


def _explicit(ref: AnyRef) -> Mapping[_Key, Any]:
    said: dict[_Key, Any] = {("preset", name): is_on for name, is_on in ref.presets.items()}
    if ref.config is not None:
        said["config", ""] = ref.config
    if ref.prefix is not None:
        said["prefix", ""] = ref.prefix
    return said | {("rename", old): new for old, new in (ref.rename or {}).items()}


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _told(value: Any) -> str:
    return f"a {type(value).__name__}" if isinstance(value, BaseModel) else repr(value)

"""Parts: the contributions of a capability, a preset or a block, checked once (spec 1, C2–C5)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypedDict

from pydantic import BaseModel
from typing_extensions import Unpack

from capset.definitions.calls.files import normalise_path, parents_of
from capset.definitions.governance.hooks import Hooks, checked_hooks
from capset.definitions.governance.policies import Policy, distinct_policies
from capset.definitions.identity import Definition
from capset.definitions.model_context import ContextDeclaration, ContextEntry, checked_context
from capset.definitions.names import BLOCK, checked_copy, checked_mapping, checked_name, checked_texts
from capset.definitions.resources import (
    AnyResource,
    Documents,
    Scope,
    ScopeState,
    checked_model,
    checked_state,
    distinct_resources,
)
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.options import refuse_unknown
from capset.definitions.tools.toolkits import Member, checked_members, distinct_tools, policies_in
from capset.errors import DefinitionError, FileError

_CLOSING: Final = re.compile(r"<\s*/\s*capability\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Part(Definition):
    """Everything that is merged. ``declared`` names the surfaces that were given, even if they are empty.

    ``members`` are the tools and toolkits as declared; ``tools`` are all tools among and inside them.
    """

    instructions: tuple[str, ...]
    context: tuple[ContextEntry, ...]
    members: tuple[Member, ...]
    tools: tuple[AnyTool, ...]
    policies: tuple[Policy, ...]
    resources: tuple[AnyResource | Documents, ...]
    state: ScopeState
    sequencer_state: type[BaseModel] | None
    targets: Mapping[str, type[BaseModel]]
    files: Mapping[str, bytes]
    model_settings: Mapping[str, Any]
    hooks: Hooks
    declared: frozenset[str]

    @property
    def every_policy(self) -> tuple[Policy, ...]:
        """Its own policies and those of its toolkits and tools, each once, in traversal order."""
        return tuple(dict.fromkeys((*self.policies, *policies_in(self.members))))


class StepOptions(TypedDict, total=False):
    """The surfaces of every block. ``None`` is the same as leaving one out."""

    resources: Iterable[AnyResource | Documents] | None
    """Declarations of data that its tools and functions read and write."""
    state: Mapping[Scope, type[BaseModel]] | None
    """One pydantic model per scope, whose fields are merged with those of others."""
    targets: Mapping[str, type[BaseModel]] | None
    """The state of other blocks that it works on, by their names."""
    files: Mapping[str, str | bytes] | None
    """Read-only files in the session, by path."""


class ModelOptions(StepOptions, total=False):
    """The surfaces of a block whose work a model does."""

    instructions: Iterable[str] | None
    """Instructions for the model."""
    context: Iterable[ContextDeclaration] | None
    """Shown to the model before every step: texts, mappings whose keys become tags, functions."""
    tools: Iterable[Member] | None
    """Tools and toolkits."""
    policies: Iterable[Policy] | None
    """Policies that apply to every tool it brings."""
    model_settings: Mapping[str, Any] | None  # any JSON
    """Settings for the model wherever it is used."""
    hooks: Hooks | None
    """Notified of its policies and of the calls of its tools; never hashed."""


class PartOptions(ModelOptions, total=False):
    """Every surface: what a capability or a preset can contribute."""

    sequencer_state: type[BaseModel] | None
    """State that lives for one run of a sequencer."""


def make_part(owner: str, **options: Unpack[PartOptions]) -> Part:
    """Check and freeze every surface. Raises ``DefinitionError``, starting with ``owner``."""
    declared: Mapping[str, Any] = {name: value for name, value in options.items() if value is not None}
    texts = checked_texts(f"{owner}: instructions", declared.get("instructions", ()))
    if any(_CLOSING.search(text) for text in texts):
        raise DefinitionError(f"{owner}: instructions must not close the <capability> block that holds them")
    members = checked_members(owner, declared.get("tools", ()))
    sequencer_state = declared.get("sequencer_state")
    return Part(
        instructions=texts,
        context=checked_context(owner, declared.get("context", ())),
        members=members,
        tools=distinct_tools(owner, members),
        policies=distinct_policies(owner, declared.get("policies", ())),
        resources=distinct_resources(owner, declared.get("resources", ())),
        state=checked_state(owner, declared.get("state", {})),
        sequencer_state=None
        if sequencer_state is None
        else checked_model(f"{owner}: sequencer_state", sequencer_state),
        targets=_checked_targets(owner, declared.get("targets", {})),
        files=_checked_files(owner, declared.get("files", {})),
        model_settings=_checked_settings(owner, declared.get("model_settings", {})),
        hooks=checked_hooks(owner, declared.get("hooks")),
        declared=frozenset(declared),
    )


def _checked_targets(owner: str, targets: Mapping[str, type[BaseModel]]) -> Mapping[str, type[BaseModel]]:
    return MappingProxyType(
        {
            checked_name(f"{owner}: a target is the name of a block, which", name, BLOCK): checked_model(
                f"{owner}: the target {name!r}", model
            )
            for name, model in checked_mapping(f"{owner}: targets", targets).items()
        }
    )


def _checked_files(owner: str, files: Mapping[str, str | bytes]) -> Mapping[str, bytes]:
    mounted: dict[str, bytes] = {}
    for path, content in checked_mapping(f"{owner}: files", files).items():
        if not isinstance(path, str):
            raise DefinitionError(f"{owner}: the path of a file is text, such as '/notes.txt'; got {path!r}")
        if not isinstance(content, str | bytes):
            raise DefinitionError(f"{owner}: the content of {path!r} is text or bytes; got {type(content).__name__}")
        try:
            mount_path = normalise_path(path)
            mounted[mount_path] = content.encode() if isinstance(content, str) else bytes(content)
        except FileError as error:
            raise DefinitionError(f"{owner}: {error.message}") from None
        except UnicodeEncodeError as error:
            raise DefinitionError(f"{owner}: the file {path!r} holds a lone surrogate at {error.start}") from None
        if mount_path == "/":
            raise DefinitionError(f"{owner}: a file needs a name; got {path!r}")
    if len(mounted) != len(files):
        raise DefinitionError(f"{owner}: two of its files have the same path")
    if inside := file_within_file(mounted):
        raise DefinitionError(f"{owner}: {inside[0]!r} is a file and cannot hold {inside[1]!r}")
    return MappingProxyType(mounted)


def file_within_file(paths: Collection[str]) -> tuple[str, str] | None:
    """Return the paths of two files, the second inside the first, or ``None``. Paths must be normalised."""
    for path in paths:
        for above in parents_of(path):
            if above in paths:
                return above, path
    return None


def _checked_settings(owner: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    entries = checked_mapping(f"{owner}: model_settings", settings)
    if not all(isinstance(key, str) for key in entries):
        raise DefinitionError(f"{owner}: model_settings are a mapping with texts as keys; got {settings!r}")
    return MappingProxyType(
        {key: checked_copy(f"{owner}: model_settings: {key!r}", value) for key, value in entries.items()}
    )


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, init=False)
class Preset(Definition):
    """The part of a capability that applies only while this preset is on; ``PartOptions`` describes each surface."""

    part: Part

    def __init__(self, **options: Unpack[PartOptions]) -> None:
        """Check and freeze every argument. Raises ``DefinitionError``."""
        refuse_unknown(Preset.__init__, options, PartOptions)
        part = make_part("a preset", **options)
        if part.policies and not part.members:
            raise DefinitionError(
                "a preset: policies gate the tools that it brings, and it brings none",
                hint="give it the tools too, or give the policies to the capability or to the tools themselves",
            )
        object.__setattr__(self, "part", part)

    def __repr__(self) -> str:
        return f"Preset({', '.join(sorted(self.part.declared))})"

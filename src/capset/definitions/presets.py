"""A named, switchable part of a capability (spec 1, C2–C5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from capset.definitions.contents import ContextFunction, ContextValue
from capset.definitions.hooks import Hooks
from capset.definitions.parts import Part, make_part
from capset.definitions.policies import Policy
from capset.definitions.resources import AnyResource, Documents
from capset.definitions.scopes import Scope
from capset.definitions.toolkits import Member
from capset.errors import DefinitionError


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, init=False)
class Preset:
    """What a capability contributes only while this preset is on; see ``Capability`` for each surface."""

    part: Part

    def __init__(
        self,
        *,
        instructions: Iterable[str] | None = None,
        context: Iterable[ContextValue | ContextFunction] | None = None,
        tools: Iterable[Member] | None = None,
        policies: Iterable[Policy] | None = None,
        resources: Iterable[AnyResource | Documents] | None = None,
        state: Mapping[Scope, type[BaseModel]] | None = None,
        sequencer_state: type[BaseModel] | None = None,
        targets: Mapping[str, type[BaseModel]] | None = None,
        files: Mapping[str, str | bytes] | None = None,
        model_settings: Mapping[str, Any] | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        """Check and freeze everything. Raises ``DefinitionError``."""
        part = make_part(
            "a preset",
            instructions=instructions,
            context=context,
            tools=tools,
            policies=policies,
            resources=resources,
            state=state,
            sequencer_state=sequencer_state,
            targets=targets,
            files=files,
            model_settings=model_settings,
            hooks=hooks,
        )
        if part.policies and not part.members:
            raise DefinitionError(
                "a preset: policies gate the tools that it brings, and it brings none",
                hint="give it the tools too, or give the policies to the capability or to the tools themselves",
            )
        object.__setattr__(self, "part", part)

    def __repr__(self) -> str:
        return f"Preset({', '.join(sorted(self.part.declared))})"

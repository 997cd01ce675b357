"""Composition: everything that an agent or a block could ever be given, merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel

from capset.composition.context import render_context, render_system
from capset.composition.explain import Explanation, explain
from capset.composition.installation import InstalledTool, Level, ToolNames
from capset.composition.merge import Contribution, MergedParts, ResourceKey, merge, merge_resources
from capset.composition.resolve import CapabilityUse, DynamicRefs, resolve
from capset.composition.sources import Contributed, ContributionSource
from capset.composition.states import MergedState, merge_states
from capset.composition.statics import static_hash
from capset.definitions.blocks import Block
from capset.definitions.capabilities import AnyCapability
from capset.definitions.model_context import ContextEntry
from capset.definitions.references import DynamicUses
from capset.definitions.resources import SCOPES, AnyResource, Documents, Scope, ScopeState
from capset.errors import ContextError, DefinitionError, ToolNameConflict
from capset.fingerprint.hashes import Ref

Exposed = tuple[Literal["resource", "state"], Scope, str]
"""A resource or a state field: its kind, scope and name."""


@dataclass(frozen=True, eq=False)
class Composition:
    """The result of ``compose()``: an agent or a block with everything that it uses, merged and free of conflicts.

    ``capability_uses`` lists the contributing capabilities in order, with their presets and config. ``children`` maps
    each nested block to its composition. ``dynamic`` has the functions that add capabilities at run time. ``notices``
    report deprecated capabilities and those that contribute nothing. ``static_hash``, 64 hexadecimal digits, covers
    everything in the definition that a model or a policy could see.
    """

    block: Block
    capability_uses: tuple[CapabilityUse, ...]
    merged: MergedParts
    children: Mapping[Block, Composition]
    dynamic: tuple[DynamicUses, ...]
    notices: tuple[str, ...]
    static_hash: str

    @cached_property
    def data(self) -> SessionData:
        """The merged resources and state of this block and all nested blocks.

        Raises ``ResourceConflict`` or ``StateConflict``, as ``compose`` does for a root.
        """
        return collect_data(self.block, (composition.merged for composition in self._post_order(set())))

    @property
    def tools(self) -> Mapping[str, InstalledTool]:
        """Every tool, by its name for the model."""
        return self.merged.tools

    @property
    def capabilities(self) -> tuple[AnyCapability, ...]:
        """The contributing capabilities, in order."""
        return tuple(dict.fromkeys(use.capability for use in self.capability_uses))

    @cached_property
    def mounts(self) -> Mapping[str, bytes]:
        """The content of every mounted file, by path."""
        return MappingProxyType({path: file.value for path, file in self.merged.files.items()})

    @cached_property
    def exposed(self) -> frozenset[Exposed]:
        """The resources and state fields of this block and all nested blocks that clients may read.

        Each capability exposes only its own: one of the same name in another scope stays private.
        """
        entries: set[Exposed] = set()
        for use in self.capability_uses:
            names = use.capability.expose
            for _, part in use.parts:
                entries |= {
                    ("resource", resource.scope, resource.name) for resource in part.resources if resource.name in names
                }
                entries |= {
                    ("state", scope, name)
                    for scope, model in part.state.items()
                    for name in model.model_fields
                    if name in names
                }
        return frozenset(chain(entries, *(child.exposed for child in self.children.values())))

    @cached_property
    def by_capability(self) -> Mapping[AnyCapability, CapabilityUse]:
        """The first use of each capability; a narrowed one is also found by its ``origin``."""
        first_uses = {use.capability: use for use in reversed(self.capability_uses)}
        return MappingProxyType(
            first_uses | {key.origin: use for key, use in first_uses.items() if key.origin is not None}
        )

    @property
    def instructions(self) -> tuple[str, ...]:
        """The capabilities' instructions in order, then the block's own."""
        return tuple(instruction.value for instruction in self.merged.instructions)

    @property
    def context(self) -> tuple[Contributed[ContextEntry], ...]:
        """The context entries: the block's own, then those of the capabilities in order."""
        block_entries = [entry for entry in self.merged.context if entry.source.capability is None]
        return (*block_entries, *(entry for entry in self.merged.context if entry.source.capability is not None))

    @property
    def system_text(self) -> str:
        """The system prompt for the model, without context, which is resolved at every step."""
        return render_system(self.block.system_prompt, self.merged.instructions)

    def explain(self) -> tuple[Explanation, ...]:
        """Return the contributor of every tool, resource, state field, text, context entry, file and policy.

        A block that occurs in several places is reported once, under the first path to it.
        """
        paths: dict[Composition, tuple[str, ...]] = {}
        self._walk((), paths)
        return tuple(chain.from_iterable(explain(composition.merged, within) for composition, within in paths.items()))

    def _walk(self, within: tuple[str, ...], paths: dict[Composition, tuple[str, ...]]) -> None:
        paths[self] = within
        for child in self.children.values():
            if child not in paths:
                child._walk((*within, self.block.name), paths)

    def _post_order(self, visited: set[Composition]) -> Iterator[Composition]:
        visited.add(self)
        for child in self.children.values():
            if child not in visited:
                yield from child._post_order(visited)
        yield self


def compose(block: Block, dynamic_refs: DynamicRefs | None = None, *, data: SessionData | None = None) -> Composition:
    """Compose an agent or a block: merge everything that it uses and declares.

    Pure: equal definitions give equal results in every process. ``dynamic_refs`` has the results of the dynamic
    ``uses`` for one run. Resources and state that these add must be declared in ``data``, by default the data that
    ``block`` declares statically. Raises ``DefinitionError``, usually one of its conflicts, each of which names both
    contributors.
    """
    if not isinstance(block, Block):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        raise DefinitionError(f"compose takes an Agent, or another block; got {block!r:.80}")
    composition = _compose(block, dynamic_refs, {}, ())
    if dynamic_refs is None:
        _ = composition.data  # raises the conflicts of a root
    else:
        _refuse_undeclared(composition, data or compose(block).data)
    return composition


def _compose(
    block: Block,
    dynamic_refs: DynamicRefs | None,
    compositions: dict[Block, Composition],
    outer_blocks: tuple[str, ...],
) -> Composition:
    """Compose a block and its nested blocks, each once; ``compositions`` caches the results."""
    max_levels = 50  # no run goes deeper
    if len(outer_blocks) > max_levels:
        raise DefinitionError(
            f"{outer_blocks[0]!r} has blocks nested more than {max_levels} levels deep: "
            f"{' → '.join(outer_blocks[:6])} …",
            hint="run some of them one after the other instead of inside each other",
        )
    resolved = resolve(block, dynamic_refs)
    block_level = Level(block.name, block.part.policies, block.part.hooks)
    contributions = [
        Contribution(source, part, ToolNames(use.names, use.prefix), (block_level, _level(use.capability)))
        for use in resolved.capability_uses
        for source, part in use.parts
    ]
    merged = merge(
        block.name, block.kind, (*contributions, Contribution(ContributionSource((block.name,)), block.part))
    )
    check_routes(merged.tools, resolved.capability_uses)
    _check_static_context(merged)
    blocks = (
        *block.children.values(),
        *(installed.tool.block for installed in merged.tools.values() if installed.tool.block),
    )
    for child in blocks:
        if child not in compositions:
            compositions[child] = _compose(child, None, compositions, (*outer_blocks, block.name))
    children = MappingProxyType({child: compositions[child] for child in blocks})
    return Composition(
        block,
        resolved.capability_uses,
        merged,
        children,
        resolved.dynamic,
        resolved.notices,
        static_hash(
            block, resolved.capability_uses, [Ref(child.block.name, child.static_hash) for child in children.values()]
        ),
    )


def _level(capability: AnyCapability) -> Level:
    return Level(capability.name, capability.part.policies, capability.part.hooks, capability.limits)


def _check_static_context(merged: MergedParts) -> None:
    """Refuse static context, and keys of context functions, that would fail every run."""
    for entry in merged.context:
        try:
            render_context([(entry.source, entry.value.nest_under_keys(entry.value.value))])
        except ContextError as error:
            raise DefinitionError(error.message, hint=error.hint) from None


def _refuse_undeclared(composition: Composition, data: SessionData) -> None:
    for use in composition.capability_uses:
        for source, part in use.parts if use.is_dynamic else ():
            new = [resource.name for resource in part.resources if resource not in data.declared_resources]
            new += [
                f"{scope} state"
                for scope, model in part.state.items()
                if scope not in data.states or model not in [declared.value for declared in data.states[scope].models]
            ]
            if new:
                raise DefinitionError(
                    f"{source} is used dynamically and declares {new[0]!r}, which nothing declares statically",
                    hint=f"use {use.capability.name} statically too, and switch its dynamic presets off",
                )


def check_routes(tools: Mapping[str, InstalledTool], uses: Iterable[CapabilityUse]) -> None:
    """Raise ``ToolNameConflict``, naming both contributors, if messages of one type would have two routes.

    ``tools`` maps names in the composition to tools; the names and aliases of the capabilities in ``uses`` are
    routes, too.
    """
    routes = _tools_by_name(tools, uses)
    for installed in tools.values():
        if installed.tool.contract is None:
            continue
        other = routes.setdefault(installed.tool.type, installed)
        if other.tool is not installed.tool:
            raise ToolNameConflict(
                f"{installed.source} brings {installed.name!r} for messages of the type "
                f"{installed.tool.type!r}, which lead to the tool "
                f"{other.name!r} that {other.source} brings",
                hint="leave one of them out: a prefix or another name does not change the type of its messages",
            )


def _tools_by_name(tools: Mapping[str, InstalledTool], uses: Iterable[CapabilityUse]) -> dict[str, InstalledTool]:
    """Return every name that a tool can be called by."""
    names = {name: installed for installed in tools.values() for name in (installed.qualified_name, installed.name)}
    aliases: dict[str, tuple[str, ...]] = {}
    for use in uses:
        owners = aliases[use.capability.name] = (use.capability.name, *use.capability.aliases)
        for _, part in use.parts:
            for tool in part.tools:
                name = use.names[tool.name]
                names |= {f"{owner}.{name}": tools[name] for owner in owners}
    return names | {
        f"{owner}.{installed.name}": installed
        for installed in tools.values()
        for owner in aliases.get(installed.owner, ())
    }


@dataclass(frozen=True, eq=False, slots=True)
class SessionData:
    """The merged resources and state that a run can reach.

    ``declared_resources`` has every resource as declared. If a flow resolves a conflict, ``resources`` has the flow's
    version, and ``declared_resources`` has the replaced ones, too.
    """

    resources: Mapping[ResourceKey, Contributed[AnyResource | Documents]]
    states: Mapping[Scope, MergedState]
    declared_resources: frozenset[AnyResource | Documents]


def collect_data(block: Block, merged_blocks: Iterable[MergedParts]) -> SessionData:
    """Merge the resources and state of a root ``block``, the last of ``merged_blocks``, and of all blocks below it.

    Raises ``ResourceConflict`` or ``StateConflict``, naming both contributors, unless the block overrides its children.
    """
    merged = tuple(merged_blocks)
    if len(merged) == 1:
        (root,) = merged
        return SessionData(
            root.resources, root.states, frozenset(contributed.value for contributed in root.resources.values())
        )
    resources = [(contributed.source, contributed.value) for part in merged for contributed in part.resources.values()]
    own_resources = block.part.resources if block.overrides_children else ()
    overrides = {(resource.scope, resource.name): resource for resource in own_resources}
    state_overrides: ScopeState = block.part.state if block.overrides_children else {}
    return SessionData(
        merge_resources(
            (source, overrides.get((resource.scope, resource.name), resource)) for source, resource in resources
        ),
        MappingProxyType(
            {
                scope: merge_states(f"{scope} state", models, override=state_overrides.get(scope))
                for scope in SCOPES
                if (models := _models(scope, merged))
            }
        ),
        frozenset(resource for _, resource in resources),
    )


def _models(scope: Scope, merged: Iterable[MergedParts]) -> list[tuple[ContributionSource, type[BaseModel]]]:
    states = [part.states[scope] for part in merged if scope in part.states]
    return [(model.source, model.value) for state in states for model in state.models]

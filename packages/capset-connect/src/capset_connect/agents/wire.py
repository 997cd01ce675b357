"""Wire shapes of stored agents and of agents in code, shared by all interfaces (spec 5, P4, P5, P7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from capset.composition.compose import Composition, compose
from capset.composition.conflicts import CompositionConflict
from capset.definitions.agents import Agent
from capset.definitions.principals import Principal
from capset.errors import DefinitionError
from capset.evaluation.code import read_code
from capset.evaluation.compare.comparison import diff_sides
from capset.evaluation.compare.differences import Diff
from capset.evaluation.compare.sides import Side, side_of
from capset.evaluation.snapshot.capture import envelope_of
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.changes import Change, compare, compare_named
from capset.kernel.kernel import Kernel
from capset.stores.base import AgentPage, AgentQuery, AgentStatus, VersionQuery
from capset.stores.base.pins import ToolPin
from capset.stores.texts import ascii_lower
from capset.wire.agents import (
    AgentDetail,
    AgentDiffShape,
    AgentPageShape,
    PreviewShape,
    VersionPageShape,
    agent_detail,
    agent_diff_shape,
    defined_agent_detail,
    defined_version_shape,
    preview_shape,
    version_shape,
)
from capset.wire.pages import read_page
from capset_connect.agents.mcp_servers import new_servers
from capset_connect.agents.permissions import Author, needs_admin
from capset_connect.agents.previews import Preview
from capset_connect.agents.rows import Loaded, is_same, plain_of
from capset_connect.agents.store import StoredAgents


def detail_of(kernel: Kernel, loaded: Loaded) -> AgentDetail:
    """Return the wire shape of an agent, stored or in code."""
    if loaded.row is None:
        return defined_agent_detail(kernel.compose(loaded.agent))
    return agent_detail(loaded.row, loaded.notices)


async def page_of(
    kernel: Kernel,
    agents: StoredAgents,
    org: str | None,
    *,
    status: AgentStatus | None = None,
    name: str | None = None,
    text: str | None = None,
    capabilities: tuple[str, ...] = (),
    has_servers: bool = False,
    limit: int = 50,
    cursor: str | None = None,
) -> AgentPageShape:
    """Return a page of agents: those defined in code by name, then stored ones, newest first.

    ``text`` is a part of their names. ``capabilities`` selects agents that use one of them; ``has_servers`` selects
    agents with their own MCP servers, which agents in code never have. A cursor within the agents in code is ``~`` and
    the last name of the previous page.
    """
    defined = [
        agent
        for agent in agents.defined
        if status in (None, "active") and name in (None, agent.name) and not has_servers
        if text is None or ascii_lower(text) in ascii_lower(agent.name)
        if not capabilities or any(use.name in capabilities for use in agent.uses if not callable(use))
    ]
    cursor, first = cursor or "~", list[Agent]()
    if cursor.startswith("~"):
        first, cursor = [agent for agent in defined if agent.name > cursor[1:]], None
    selected = first[:limit]
    remaining = limit - len(selected)
    # The store is queried even for a full page: it has the total, and knows whether there is a next page.
    query = AgentQuery(org, status, name, text, capabilities, has_servers, limit=remaining or 1, before=cursor)
    total = 0
    pins: dict[str, tuple[ToolPin, ...]] = {}

    async def read(query: AgentQuery) -> AgentPage:
        nonlocal total
        page = await kernel.store.agents.list(query)
        total = page.total
        pins.update({row.id: await agents.pins(row) for row in page.items})
        return page

    stored, following = await read_page(
        read, query, lambda row: detail_of(kernel, agents.loaded_with(row, pins[row.id])), attrgetter("id")
    )
    items = list[AgentDetail]()
    for agent in selected:
        items.append(detail_of(kernel, await agents.get(org, agent.name)))
        await asyncio.sleep(0)  # composing an agent for the first time takes a millisecond
    if len(first) > len(selected) or (not remaining and stored):
        following = f"~{selected[-1].name}"
    return AgentPageShape(items=[*items, *stored[:remaining]], total=len(defined) + total, next=following)


async def versions_of(
    kernel: Kernel, agents: StoredAgents, org: str | None, id: str, *, limit: int = 50, cursor: str | None = None
) -> VersionPageShape:
    """Return a page of an agent's versions, newest first. An agent in code has one version. Raises ``NotFound``."""
    before = None if cursor is None else int(cursor)
    loaded = await agents.get(org, id)
    if loaded.row is None:
        only = defined_version_shape(kernel.compose(loaded.agent))
        return VersionPageShape(items=[only] if before is None or before > 1 else [])
    query = VersionQuery(org, id, limit=limit, before=before)
    items, following = await read_page(kernel.store.agents.versions, query, version_shape, attrgetter("version"))
    return VersionPageShape(items=items, next=None if following is None else str(following))


async def diff_of(
    kernel: Kernel,
    agents: StoredAgents,
    id: str,
    before: int,
    after: int | None,
    *,
    author: Author,
    principal: Principal,
    env: Mapping[str, Any],
) -> AgentDiffShape:
    """Compare two versions of an agent. ``after`` defaults to the current version. Raises ``NotFound``."""
    earlier = await agents.at(principal.org, id, before)
    present = await agents.get(principal.org, id)
    other = present if after is None else await agents.at(principal.org, id, after)
    diff = await diff_agents(kernel, earlier, other, present=present, author=author, principal=principal, env=env)
    return agent_diff_shape(diff.before, diff.after, diff.changes, diff.composed, diff.notices)


async def shown_preview(
    kernel: Kernel,
    preview: Preview,
    *,
    author: Author,
    principal: Principal,
    env: Mapping[str, Any],
    id: str | None = None,
) -> PreviewShape:
    """Return the shape of a preview, with its evaluation for a principal.

    An agent that only an administrator may store is evaluated for administrators only, because evaluation runs policies
    and creates dynamic toolkits.
    """
    snapshot, conflicts = None, preview.conflicts
    if preview.agent is not None and (author.is_admin or not preview.needs_admin):
        try:
            # Not kernel.compose(), which would cache a composition that no session will use.
            snapshot = await kernel.evaluate(compose(preview.agent), principal=principal, env=env, agent_id=id)
        except DefinitionError as error:  # a problem that only evaluation detects
            conflicts = (CompositionConflict(error),)
    is_valid = preview.agent is not None and not conflicts
    diff = await _diff_of_change(kernel, preview, snapshot, principal=principal, env=env)
    return preview_shape(preview.problems, conflicts, preview.needs_admin, snapshot, diff, is_valid=is_valid)


async def _diff_of_change(
    kernel: Kernel, preview: Preview, snapshot: Snapshot | None, *, principal: Principal, env: Mapping[str, Any]
) -> AgentDiffShape | None:
    """Compare a previewed change, evaluated as ``snapshot``, with the agent's current version."""
    saved, changed_row = preview.saved, preview.written
    if saved is None or saved.row is None or changed_row is None:
        return None
    composed, notices = None, saved.notices
    if snapshot is not None:
        try:
            before = await kernel.evaluate(kernel.compose(saved.agent), principal=principal, env=env, agent_id=saved.id)
            await read_code(before)
            await read_code(snapshot)
            composed = diff_sides(side_of(envelope_of(before)), side_of(envelope_of(snapshot)))
        except DefinitionError as error:
            notices = tuple(dict.fromkeys((*notices, error.message)))
    version = saved.row.version
    after = version if is_same(saved.row, changed_row) else version + 1
    messages = [f"version {version}: {notice}" for notice in notices]
    return agent_diff_shape(version, after, changes_of(plain_of(saved.row), plain_of(changed_row)), composed, messages)


@dataclass(frozen=True, eq=False, slots=True)
class AgentDiff:
    """The differences between two versions: ``changes`` of the definition, and ``composed`` for one principal.

    ``composed`` is ``None`` if a version can no longer be composed, or may only be evaluated for an administrator.
    ``notices`` give the reason, and name capabilities that are no longer installed.
    """

    before: int
    after: int
    changes: tuple[Change, ...]
    composed: Diff | None
    notices: tuple[str, ...]


async def diff_agents(
    kernel: Kernel,
    before: Loaded,
    after: Loaded,
    *,
    present: Loaded,
    author: Author,
    principal: Principal,
    env: Mapping[str, Any],
) -> AgentDiff:
    """Compare two versions of one agent, both evaluated now for this principal and environment.

    A version with high-risk capabilities that the ``present`` version lacks is evaluated for administrators only,
    because evaluation runs policies and creates dynamic toolkits.
    """
    notices: list[str] = []
    sides: list[Side] = []
    enabled = None if author.is_admin else _composed(kernel, present)
    for version in (before, after):
        where = f"version {_version(version)}: "
        notes = version.notices
        try:
            composition = kernel.compose(version.agent)
            needed = (*new_servers(version.servers, present.servers), *needs_admin(composition, enabled))
            if not author.is_admin and needed:
                names = ", ".join(map(repr, dict.fromkeys(needed)))
                notes = (*notes, f"not evaluated, since only an administrator can enable {names}")
            else:
                snapshot = await kernel.evaluate(composition, principal=principal, env=env, agent_id=version.id)
                await read_code(snapshot)
                sides.append(side_of(envelope_of(snapshot)))
        except DefinitionError as error:
            notes = dict.fromkeys((*notes, error.message))
        notices += [where + notice for notice in notes]
    composed = await asyncio.to_thread(diff_sides, *sides) if len(sides) == 2 else None
    contents = [{} if loaded.row is None else plain_of(loaded.row) for loaded in (before, after)]
    changes = await asyncio.to_thread(lambda: tuple(changes_of(*contents)))
    return AgentDiff(_version(before), _version(after), changes, composed, tuple(notices))


def changes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the differences between two definitions, field by field. Capabilities are matched by id."""
    for name in sorted({*before, *after}):
        if name not in after:
            yield Change(name, "removed", before=before[name])
        elif name not in before:
            yield Change(name, "added", after=after[name])
        else:
            yield from _compared(name, before[name], after[name])


def _compared(name: str, before: Any, after: Any) -> Iterator[Change]:
    if name == "capabilities":
        return compare_named(name, before, after, _id_of)
    return compare(name, before, after)


def _id_of(entry: Any) -> str | None:  # an id, or an entry with one
    return entry if isinstance(entry, str) else entry["id"]


def _composed(kernel: Kernel, loaded: Loaded) -> Composition | None:
    try:
        return kernel.compose(loaded.agent)
    except DefinitionError:
        return None  # none of its capabilities counts as enabled


def _version(loaded: Loaded) -> int:
    return 1 if loaded.row is None else loaded.row.version

"""An action registry: register, get, list and execute tools by id (spec 4, G4, G6), for hosts with such an API."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from capset.composition.compose import compose
from capset.definitions.agents import Agent
from capset.definitions.names import checked_list
from capset.definitions.principals import Principal
from capset.definitions.tools.definition import AnyTool, Tool
from capset.errors import CapsetError, DefinitionError, ToolNameConflict
from capset.kernel.call.invocation import MISSING
from capset.kernel.call.pipeline import execute
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.stores.base import SessionRow

MAX_SESSIONS: Final = 1_000
"""Maximum number of sessions in memory, one per principal. The least recently used ones are dropped first."""


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """The acting user, and the environment: facts of the host for policies."""

    user: Principal
    env: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The outcome of an action whose handler was started: JSON ``data`` if ``success``, otherwise ``error``.

    ``error`` is the verbatim text of a ``ToolError``, or a sanitised text for any other exception. ``failure`` has the
    error's code and status. ``record`` is the id of the call's record.
    """

    success: bool
    data: Any = None
    error: str | None = None
    failure: CapsetError | None = None
    record: str | None = None


class ActionRegistry:
    """Tools by id on one kernel: ``registry.register(tool)``, ``await registry.execute(id, params, context)``.

    Each change creates a new agent; running executions continue with the agent that they started with. A principal has
    one session per agent, so files and state persist between executions.
    """

    def __init__(self, kernel: Kernel, tools: Iterable[AnyTool] = (), *, name: str = "actions") -> None:
        """``name`` is the agent's name in records. Raises the errors of ``register``."""
        self._kernel = kernel
        self._agent = Agent(name)
        self._tools: dict[str, AnyTool] = {}
        self._sessions: OrderedDict[Principal, tuple[SessionRow, Session, Mapping[str, Any]]] = OrderedDict()
        self._opening = asyncio.Lock()
        self.register(*checked_list("an action registry's tools", tools))

    def register(self, *tools: AnyTool, replace: bool = False) -> None:
        """Register tools, all or none: if one is refused, the registry does not change.

        Raises ``DefinitionError`` for an object that is not a tool, ``ToolNameConflict`` if another tool has the name
        and ``replace`` is false, and the errors of ``compose`` for a tool that conflicts with the others.
        """
        registered = dict(self._tools)
        for tool in tools:
            if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
                raise DefinitionError(
                    f"an action is a Tool; got {tool!r:.80}",
                    hint="decorate the function with @tool, or create a tool from a JSON Schema with schema_tool(…)",
                )
            if registered.get(tool.name, tool) is not tool and not replace:
                raise ToolNameConflict(
                    f"another action is named {tool.name!r}", hint="replace it with register(…, replace=True)"
                )
            registered[tool.name] = tool
        agent = Agent(self._agent.name, tools=registered.values())
        compose(agent)
        self._agent, self._tools, self._sessions = agent, registered, OrderedDict()

    def get(self, id: str) -> AnyTool | None:
        """Return an action by its id, or ``None``."""
        return self._tools.get(id)

    def list(self, permissions: Iterable[str] | None = None) -> list[AnyTool]:
        """Return the actions that need any of these permissions, sorted by id. ``None`` means all actions.

        This is a filter, not authorisation: an unlisted action is not forbidden, and a listed one is not allowed. An
        empty iterable matches no action.
        """
        tools = [tool for _, tool in sorted(self._tools.items())]
        granted = None if permissions is None else frozenset(permissions)
        return [tool for tool in tools if granted is None or tool.permissions & granted]

    async def execute(self, id: str, params: Mapping[str, Any], context: ExecutionContext) -> ActionResult:
        """Execute an action as a governed, recorded call. ``params`` have the types that the tool declares.

        Raises the error of a call that was refused before its handler started: ``NotFound``, ``PermissionDenied``,
        ``InvalidArguments``, ``LimitExceeded``, ``StoreError``, …. Every outcome of the handler is returned as a
        result.
        """
        if not isinstance(context, ExecutionContext):  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
            raise DefinitionError(f"context must be an ExecutionContext(user=Principal(…)); got {context!r:.80}")
        session = await self._session(context)
        call = session.invocation_of(session.message(id, params))
        await execute(call)
        if call.error is None:
            return ActionResult(True, None if call.value is MISSING else call.data, record=call.id)
        if call.decision.kind != "allow":  # set only once every stage before the handler has passed
            raise call.error
        return ActionResult(False, error=call.error.message, failure=call.error, record=call.id)

    async def _session(self, context: ExecutionContext) -> Session:
        """Return the principal's session. It is reopened if the environment has changed, with a new snapshot."""
        user, env = context.user, dict(context.env)
        agent, sessions = self._agent, self._sessions
        async with self._opening:
            known = sessions.get(user)
            if known is None or known[2] != env:
                row = self._kernel.new_session(agent, user) if known is None else known[0]
                session = await self._kernel.enter(row, agent, principal=user, env=env)
                if known is None:
                    await self._kernel.store.sessions.create(row)
                sessions[user] = known = row, session, env
        sessions.move_to_end(user)
        if len(sessions) > MAX_SESSIONS:
            sessions.popitem(last=False)
        return known[1]

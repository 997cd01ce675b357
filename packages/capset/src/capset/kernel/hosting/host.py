"""The session host: the registered agents and their sessions (spec 2, F24, F25)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from capset.definitions.blocks import Block
from capset.definitions.governance.hooks import Hooks, checked_hooks
from capset.definitions.names import checked_optional
from capset.definitions.principals import Principal
from capset.errors import NotFound, unknown
from capset.evaluation.evaluate import Labels
from capset.fingerprint.canonical import PROFILE
from capset.fingerprint.invocations import normalize_invocation
from capset.kernel.hosting.declaration import ContextLayer, Declaration, Run, checked_id, declare
from capset.kernel.hosting.hooks import SessionHooks
from capset.kernel.hosting.session import HostedSession, TurnOptions
from capset.kernel.kernel import Kernel
from capset.kernel.session_access import check_opening
from capset.stores.base import RegistrationRow


class SessionHost:
    """Agents by id, each declared once with the hooks, the context and the ``run`` of its sessions.

    The host works on an open kernel, and lives as long as its process; the kernel's store keeps the registrations.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._declarations: dict[tuple[str | None, str], Declaration] = {}
        self._registering = asyncio.Lock()

    async def register(
        self,
        agent: Block,
        *,
        agent_id: str | None = None,
        org: str | None = None,
        hooks: SessionHooks | None = None,
        context: ContextLayer | None = None,
        run: Run | None = None,
    ) -> RegistrationRow:
        """Declare an agent, or another block, and its sessions; return the stored registration.

        Declaring the same id and org again replaces the declaration for sessions created later; the stored registration
        is a new one only if the static hash has changed (spec 2, F29).

        Args:
            agent: the agent of the sessions.
            agent_id: its id; by default its name.
            org: its owner; without one, everyone may have sessions of it.
            hooks: called around every turn, before those of the session.
            context: a mapping, a resolver ``(input, context so far) -> mapping``, or a list of these; it comes after
                the agent's ``static_context`` and before the additions of the session.
            run: does the work of a turn; without one, the agent itself runs.

        Raises ``DefinitionError`` for invalid values, ``StoreError``, and the errors of ``compose``.
        """
        declaration = declare(agent, agent_id)
        declaration = declaration.extended(f"register {declaration.agent_id!r}", hooks, context, run)
        checked_optional("register: org", org)
        row = RegistrationRow(
            id=self._kernel.new_id(),
            org=org,
            agent_id=declaration.agent_id,
            agent_name=agent.name,
            static_hash=self._kernel.compose(agent).static_hash,
            profile=PROFILE,
            created_at=self._kernel.now(),
        )
        async with self._registering:  # so that the last stored registration matches the last declaration
            stored = await self._kernel.store.lineage.register(row)
            self._declarations[org, declaration.agent_id] = declaration
        return stored

    def create_session(
        self,
        agent_id: str,
        *,
        principal: Principal,
        env: Mapping[str, Any] | None = None,
        hooks: SessionHooks | None = None,
        context: ContextLayer | None = None,
        run: Run | None = None,
        session_id: str | None = None,
        tool_hooks: Hooks | None = None,
        namespace: str | None = None,
        invocation: Mapping[str, Any] | None = None,
        invocation_allowlist: Iterable[str] = (),
    ) -> HostedSession:
        """Return a session of a registered agent; its first turn opens it.

        Args:
            agent_id: the id under which the agent was registered, for the principal's org or for everyone.
            principal: the acting principal.
            env: the host's own values for this environment, which policies and handlers read.
            hooks: called after those of the registration.
            context: a layer as in ``register``; it comes last.
            run: replaces the registered one.
            session_id: the principal's own session to continue; without one, this is a new session.
            tool_hooks: notified of policies and tools in every turn, see ``Hooks``.
            namespace: passed to ``evaluate``, as are ``invocation`` and ``invocation_allowlist``; all are read once.
            invocation: see ``namespace``.
            invocation_allowlist: see ``namespace``.

        Raises ``NotFound`` for an agent that is not registered, ``DefinitionError`` for values of the wrong kind, and
        ``InvalidArguments`` for an invocation that cannot be hashed.
        """
        agent_id = checked_id("create_session: agent_id", agent_id)
        owner = f"create_session {agent_id!r}"
        if session_id is not None:
            checked_id(f"{owner}: session_id", session_id)
        org = getattr(principal, "org", None)  # its type is checked by check_opening
        declaration = self._resolve_declaration(agent_id, org)
        check_opening(declaration.agent, principal, env)
        declaration = declaration.extended(owner, hooks, context, run)
        labels = Labels(
            namespace=checked_optional(f"{owner}: namespace", namespace),
            agent_id=agent_id,
            agent_name=declaration.agent.name,
            invocation=normalize_invocation(invocation, invocation_allowlist),
            hooks=checked_hooks(f"{owner}: tool_hooks", tool_hooks),
        )
        options = TurnOptions(principal, MappingProxyType(dict(env or {})), labels)
        return HostedSession(self._kernel, declaration, options, session_id)

    def _resolve_declaration(self, agent_id: str, org: str | None) -> Declaration:
        declaration = self._declarations.get((org, agent_id)) or self._declarations.get((None, agent_id))
        if declaration is None:
            names = [name for owner, name in self._declarations if owner in (None, org)]
            raise NotFound(unknown("agent", agent_id, names), hint="first await host.register(agent, agent_id=…)")
        return declaration

"""The client of a server's REST API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Literal, Self

from capset.errors import DeadlineExceeded, DefinitionError
from capset.wire.calls import CallShape
from capset.wire.model_usage import ModelUsageShape
from capset.wire.operations import HealthShape, UsageShape, WhoamiShape
from capset_server.client.agents import AgentResource
from capset_server.client.approvals import ApprovalResource
from capset_server.client.capabilities import CapabilityResource
from capset_server.client.connection import REPEATABLE, Connection, json_bytes, path_of
from capset_server.client.connections import ConnectionResource
from capset_server.client.deliveries import DeliveryResource
from capset_server.client.events import CallEvents
from capset_server.client.files import FileResource
from capset_server.client.keys import KeyResource, OrgResource, PrincipalResource
from capset_server.client.links import FingerprintResource, LinkResource
from capset_server.client.people import PersonResource
from capset_server.client.records import RecordResource
from capset_server.client.runs import RunResource, ScheduleResource
from capset_server.client.sessions import SessionResource
from capset_server.client.tool_sources import ToolSourceResource

_CORRELATION: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_REPEATED: Final = re.compile(r"[\x21-\x7e]{1,255}")


class Client:
    """A client of a capset server: ``async with Client("https://capset.example.com", key=key) as client: …``.

    A refusal by the server is raised as its class in ``capset.errors``. Raises ``Unreachable`` if the server cannot be
    reached, and ``ForeignAnswer`` if it is not capset. Requests are not retried, and redirects are not followed.
    ``https://`` takes proxies and certificates from the environment; ``http://`` connects directly.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float | None = 30.0,
        connect_timeout: float | None = 10.0,
        plain_http: bool = False,
    ) -> None:
        """Create a client for the server at ``url``.

        ``timeout`` is the number of seconds that the server may be silent; ``None`` waits forever. It does not apply to
        calls, which take as long as their tools. ``plain_http`` allows sending the key to another machine unencrypted.
        Raises ``DefinitionError`` for an invalid address or key.
        """
        self._connection = Connection(url, key, timeout=timeout, connect_timeout=connect_timeout, plain_http=plain_http)
        self.capabilities = CapabilityResource(self._connection)
        self.agents = AgentResource(self._connection)
        self.sessions = SessionResource(self._connection)
        self.files = FileResource(self._connection)
        self.approvals = ApprovalResource(self._connection)
        self.deliveries = DeliveryResource(self._connection)
        self.people = PersonResource(self._connection)
        self.connections = ConnectionResource(self._connection)
        self.runs = RunResource(self._connection)
        self.schedules = ScheduleResource(self._connection)
        self.links = LinkResource(self._connection)
        self.fingerprints = FingerprintResource(self._connection)
        self.records = RecordResource(self._connection)
        self.keys = KeyResource(self._connection)
        self.principals = PrincipalResource(self._connection)
        self.orgs = OrgResource(self._connection)
        self.tool_sources = ToolSourceResource(self._connection)

    def __repr__(self) -> str:
        return f"Client({str(self._connection.url)!r})"

    async def __aenter__(self) -> Self:
        """Open the client."""
        await self._connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection; the server cancels calls still running on them."""
        await self._connection.close()

    async def call(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,  # of the tool's own schema
        *,
        timeout: float | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        approval: str | None = None,
    ) -> CallShape:
        """Call a tool, named ``tool`` or ``capability.tool``, and return its result, refusals and failures included.

        ``capset_server.client.data_of`` returns the data of the result, or raises its error. After ``timeout`` seconds
        the server is told to stop the call, and ``DeadlineExceeded`` is raised. ``correlation``, 1–100 letters, digits,
        dots, underscores and hyphens, is written to the call's record. With ``idempotency_key``, 1–255 printable ASCII
        characters, the same call may be sent again within a day: it is made once, and later requests get the same
        result. A call that needs approval first fails with ``ApprovalRequired``, and its ``approval`` is the id of the
        approval request. Once that is approved, the same call is allowed; with ``approval=ID``, only that request
        allows it. Raises ``NotFound`` for a session that is not the caller's, and ``Conflict`` while a call with the
        same key is under way.
        """
        path, body, headers = _asked(session, tool, arguments, correlation, idempotency_key, approval)
        async with _within(timeout):
            return await self._connection.call(path, body, headers)

    @asynccontextmanager
    async def stream(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,  # of the tool's own schema
        *,
        timeout: float | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        approval: str | None = None,
    ) -> AsyncGenerator[CallEvents]:
        """Call a tool and read its events: ``async with client.stream(…) as events``; then ``events.result``.

        The tool advances as its events are read. Leaving early cancels it. A call that needs approval waits for it,
        after the event ``approval.requested``. Otherwise like ``call``; ``timeout`` includes reading the events.
        """
        path, body, headers = _asked(session, tool, arguments, correlation, idempotency_key, approval)
        async with (
            _within(timeout),
            self._connection.stream(path, body, headers) as response,
            aclosing(CallEvents(self._connection.answers, response, safe=idempotency_key is not None)) as events,
        ):
            yield events

    async def whoami(self) -> WhoamiShape:
        """Return the caller, what its key permits, and details of the server."""
        return await self._connection.get(WhoamiShape, path_of("whoami"))

    async def usage(
        self,
        *,
        session: str | None = None,
        principal: str | None = None,
        kind: Literal["user", "agent", "org"] = "user",
        org: str | None = None,
    ) -> UsageShape:
        """Return the usage of all limits so far: of the caller, or of one of its sessions.

        Reading that of another ``principal``, given by its id and ``kind``, needs the scope ``capset:admin`` or
        ``capset:audit``. ``org`` is for callers without an organisation.
        """
        query = {"session": session, "principal": principal, "kind": kind, "org": org}
        return await self._connection.get(UsageShape, path_of("usage"), query)

    async def model_usage(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        agent: str | None = None,
        principal: str | None = None,
    ) -> ModelUsageShape:
        """Return the tokens and the cost of models, by default of the last day; needs the scope ``capset:audit``.

        Times are as in ``2026-01-31T00:00:00Z``. ``principal`` is an id without its kind.
        """
        query = {"since": since, "until": until, "agent": agent, "principal": principal}
        return await self._connection.get(ModelUsageShape, path_of("usage", "models"), query)

    async def health(self) -> None:
        """Check that the server can serve calls. Raises ``StoreError`` if not, and ``Unreachable``. Needs no key."""
        await self._connection.get(HealthShape, path_of("readyz"))


def _asked(
    session: str,
    tool: str,
    arguments: Mapping[str, Any] | None,
    correlation: str | None,
    idempotency_key: str | None,
    approval: str | None,
) -> tuple[str, bytes, dict[str, str]]:
    if correlation is not None and not _CORRELATION.fullmatch(correlation):
        raise DefinitionError(
            f"a correlation has 1–100 letters, digits, dots, underscores and hyphens; got {correlation!r}"
        )
    if idempotency_key is not None and not _REPEATED.fullmatch(idempotency_key):
        raise DefinitionError(f"an idempotency key has 1–255 printable ASCII characters; got {idempotency_key!r}")
    optional_headers = {"X-Correlation-Id": correlation, REPEATABLE: idempotency_key}
    headers = {name: value for name, value in optional_headers.items() if value is not None}
    body = {"tool": tool, "arguments": arguments or {}} | ({} if approval is None else {"approval": approval})
    return path_of("sessions", session, "calls"), json_bytes(body), headers


@asynccontextmanager
async def _within(seconds: float | None) -> AsyncGenerator[None]:
    """Raise ``DeadlineExceeded`` if the block takes longer."""
    if seconds is not None and not seconds > 0:
        raise DefinitionError(f"timeout must be a positive number of seconds; got {seconds!r}")
    clock = asyncio.timeout(seconds)
    try:
        async with clock:
            yield
    except TimeoutError:
        if not clock.expired():
            raise
        raise DeadlineExceeded(
            f"the call did not end within {seconds:g} seconds; the server was told to stop it"
        ) from None

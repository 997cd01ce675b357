"""The MCP servers and APIs of a served configuration: state, and approval of their tools (spec 7, M27)."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, Protocol

from capset.definitions.principals import Principal
from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, Conflict, NotFound, counted, unknown
from capset.kernel.kernel import Kernel
from capset.kernel.ttl_cache import TtlCache
from capset.stores.base.pins import ToolPin
from capset_connect.openapi.api import OpenApi
from capset_connect.pins.offers import Offer
from capset_connect.pins.tool_pins import (
    SeenSource,
    SourceClient,
    Standing,
    approve,
    as_declared,
    check_names,
    check_seen,
    look_at,
    side_by_side,
    standings,
    unlisted,
    withdraw,
)
from capset_connect.sources import Source, source_named
from capset_connect.vault.user_secrets import needs_user, secrets_of

_log = logging.getLogger("capset.connect")

SourceState = Literal["connected", "unreachable", "not connected"]
"""A source is ``not connected`` until it is first used, and after its connection was lost."""
LOOK_SECONDS: Final = 10.0
"""The pause between two looks at a source that is watched."""
ANY_FILE: Final = " --agent FILE"
"""The options of a command for readers who may not see where the configuration file and the database are."""
_NEEDS_SECONDS: Final = 2.0
"""How long the needs count as current: readiness is asked for often, by callers without a key."""


@dataclass(frozen=True, slots=True)
class SourceNeed:
    """A lack that keeps the tools of a source from being used.

    ``message`` has only numbers and the names of secrets, so that callers without rights may read it. ``detail`` may
    have addresses, paths and output of the source. ``verb`` is that of the ``capset mcp`` command that mends it.
    """

    key: str
    message: str
    detail: str | None = field(default=None, compare=False)
    verb: str | None = None
    secrets: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The message with its detail."""
        return self.message if self.detail is None else f"{self.message}: {self.detail}"

    def remedy(self, options: str) -> str | None:
        """Return the command that mends it. ``options``, each after a space, name the file and the database."""
        if self.secrets:
            return " ".join(["export", *(f"{name}=…" for name in self.secrets)])
        if self.verb is None:
            return None
        argument = "" if self.verb == "list" else f" {shlex.quote(self.key)}"
        return f"capset mcp {self.verb}{options}{argument}"

    def line(self, options: str, *, is_public: bool = False) -> str:
        """Return it in one line, with its remedy; without the detail if ``is_public``."""
        remedy = self.remedy(options)
        text = self.message if is_public else self.text
        return text if remedy is None else f"{text}, run: {remedy}"


def need_of(report: SeenSource[Source], unset: Sequence[str] = ()) -> SourceNeed | None:
    """Return what a source needs first, or ``None`` if its approved tools can be used.

    ``unset`` are the secrets that it names and that are not set.
    """
    key = report.source.pin_key
    if unset:
        names = " and ".join(unset)
        message = f"secret {names} is not set" if len(unset) == 1 else f"secrets {names} are not set"
        return SourceNeed(key, message, secrets=tuple(unset))
    if report.problem is not None:
        return SourceNeed(key, "unreachable", report.problem)
    if report.unmatched:
        return SourceNeed(key, "its declaration names what it does not have", "; ".join(report.unmatched), "list")
    offered = [tool for tool in report.tools if tool.offer is not None]
    changed = [tool for tool in offered if tool.state == "changed"]
    if changed:
        return SourceNeed(key, f"quarantined: {counted(len(changed), 'tool')} changed", verb="diff")
    if offered and not any(map(_is_usable, offered)):
        return SourceNeed(key, approvals_text(report), verb="approve")
    gone = [tool for tool in report.tools if tool.state == "gone"]
    if gone and not offered:
        return SourceNeed(key, f"{counted(len(gone), 'approved tool')} gone", verb="diff")
    if not report.is_listed and not report.tools and _has_tools(report.source):
        return SourceNeed(key, "no tool approved", verb="approve")
    return None


def approvals_text(report: SeenSource[Source]) -> str:
    """Return how many of the tools that a source offers are approved: ``2 of 13 tools approved``."""
    offered = [tool for tool in report.tools if tool.offer is not None]
    return f"{sum(map(_is_usable, offered))} of {counted(len(offered), 'tool')} approved"


def _is_usable(tool: Standing) -> bool:
    return tool.state == "approved" and not tool.is_unusable


def _has_tools(source: Source) -> bool:
    """Return whether a source may have more to offer than resources, which need no approval."""
    return isinstance(source, OpenApi) or source.tools is None or bool(source.tools or source.prompts)


OwnClient = Callable[[Source, Secrets], AbstractAsyncContextManager[SourceClient]]
"""Opens a client of a source with these secrets, for one look at its tools."""


class SourceConnection(SourceClient, Protocol):
    """A client of a source that also exposes its cached state."""

    @property
    def is_connected(self) -> bool:
        """Whether the client is connected."""
        ...

    @property
    def failure(self) -> CapsetError | None:
        """The error of the last attempt to connect, if it failed."""
        ...

    @property
    def known_offers(self) -> Sequence[Offer] | None:
        """The tools that were last listed, if any were."""
        ...


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """The cached state of a source.

    ``approved`` is the number of its pins. ``waiting`` is the number of new or changed tools, or ``None`` if its tools
    have not been listed. ``need`` is what keeps its tools from being used, if anything, and ``output`` the last lines
    of its process if it failed.
    """

    source: Source
    state: SourceState
    problem: str | None
    approved: int
    waiting: int | None
    need: SourceNeed | None
    output: Sequence[str]


class DeclaredSources:
    """The MCP servers and APIs that the operator of a server declares.

    ``connection`` returns the connection through which agents use a source. ``is_shared`` says whether agents use the
    approvals in the kernel's store; if not, nothing can be approved here. ``options`` are those by which commands find
    the same file and database, each after a space. ``own_client`` opens a source that is used with credentials of
    users, for the administrator who looks at it; without one, these are not listed.
    """

    def __init__(
        self,
        kernel: Kernel,
        sources: Iterable[Source],
        connection: Callable[[Source], SourceConnection],
        *,
        is_shared: bool = True,
        options: str = ANY_FILE,
        own_client: OwnClient | None = None,
    ) -> None:
        self._kernel = kernel
        self._connection = connection
        self._own_client = own_client
        self._is_shared = is_shared
        self.options: Final = options
        self._sources: Mapping[str, Source] = {}
        self._reports: dict[str, SeenSource[Source]] = {}
        """The last look at each source."""
        self._public_needs = TtlCache[str, Mapping[str, str]](_NEEDS_SECONDS)
        self.declare(sources)

    def declare(self, sources: Iterable[Source]) -> None:
        """Replace the sources after their configuration has been reloaded."""
        self._sources = {source.pin_key: source for source in sources}
        self._reports = {
            key: report for key, report in self._reports.items() if report.source == self._sources.get(key)
        }

    async def watch(self, report: Callable[[SourceSummary], object]) -> None:
        """List the tools of every source now, a few sources at a time, and again every ``LOOK_SECONDS``.

        This starts servers that are processes, and retries those that failed. A list of a few minutes ago is good
        enough, unless the source announced a change or a tool differs from its pin. ``report`` is called with each
        source whose need has changed; needs that were known before the first look are not reported.
        """
        needs: dict[str, SourceNeed | None] = {}
        with suppress(Exception):  # each look reports its own
            needs |= {summary.source.pin_key: summary.need for summary in await self.summaries()}

        async def look(source: Source) -> None:
            key = source.pin_key
            try:
                pins, _ = await self._look(source, at_once=self._has_changed(key))
                summary = await self._summary(source, pins)
                if key in self._sources and summary.need != needs.get(key):
                    needs[key] = summary.need
                    report(summary)
            except CapsetError:
                pass  # of the store, which reports its failures elsewhere
            except Exception:
                _log.exception("the needs of %r could not be determined", key)

        while True:
            await side_by_side(partial(look, source) for source in self._sources.values() if not needs_user(source))
            await asyncio.sleep(LOOK_SECONDS)

    async def summaries(self) -> list[SourceSummary]:
        """Return the cached state of every source, sorted by the key of its pins."""
        pins: dict[str, list[ToolPin]] = {}
        for pin in await self._kernel.store.pins.list() if self._sources else ():
            pins.setdefault(pin.server, []).append(pin)
        return [await self._summary(source, pins.get(key, ())) for key, source in sorted(self._sources.items())]

    async def public_needs(self) -> Mapping[str, str]:
        """Return what each source needs, by the key of its pins, in words that callers without rights may read.

        Sources that need nothing are left out. The result may be a second or two old, so many callers may ask.
        """
        return await self._public_needs.get("", self._find_public_needs)

    async def _find_public_needs(self) -> Mapping[str, str]:
        return {
            summary.need.key: summary.need.line(ANY_FILE, is_public=True)
            for summary in await self.summaries()
            if summary.need is not None
        }

    async def look(self, key: str, by: Principal) -> tuple[SourceSummary, SeenSource[Source]]:
        """List the tools of a source, and compare them with their pins. Raises ``NotFound``.

        If it is used with credentials of users, its tools are listed with that of the administrator ``by``.
        """
        source = self._named(key)
        pins, report = await self._look(source, by=by)
        return await self._summary(source, pins), report

    async def approve(self, key: str, tools: Mapping[str, str], by: Principal) -> list[Standing]:
        """Approve tools of a source, given by their names and the hashes of what was reviewed, on record; all or none.

        Raises ``NotFound`` for an unknown source; ``DefinitionError`` for a tool that the source does not have or that
        cannot be called, and for names in its declaration that it does not have; and ``Conflict`` for a tool that has
        changed since it was reviewed.
        """
        source = self._named(key)
        self._check_shared()
        async with self._reach(source, by) as client:
            offers = await client.offers(at_once=True)
            await check_names(source, client)
            check_seen(source, {offer.name: offer for offer in offers}, tools)
            return await as_declared(client, await approve(self._kernel, source, offers, by, chosen=tools))

    async def withdraw(self, key: str, tools: Iterable[str], by: Principal) -> list[str]:
        """Withdraw approvals, on record, and return the names of the tools.

        The source need not be declared any more. Raises ``DefinitionError`` for a tool that is not approved.
        """
        self._check_shared()
        return await withdraw(self._kernel, source_named(key), by, chosen=tools)

    def _named(self, key: str) -> Source:
        if key not in self._sources:
            raise NotFound(unknown("MCP server or API", key, self._sources))
        return self._sources[key]

    def _check_shared(self) -> None:
        if not self._is_shared:
            raise Conflict(
                "this server keeps its data in memory, so agents would not get the approvals",
                hint="serve it with a database: --db sqlite:///capset.db",
            )

    async def _look(
        self, source: Source, *, at_once: bool = True, by: Principal | None = None
    ) -> tuple[Sequence[ToolPin], SeenSource[Source]]:
        """List the tools of a source, and return its pins, and the tools compared with them."""
        pins = await self._kernel.store.pins.list(source.pin_key)
        report = await look_at(source, pins, self._reach(source, by), at_once=at_once)
        if by is None or not needs_user(source):  # what one user sees, or lacks, is not true for all
            self._reports[source.pin_key] = report
        return pins, report

    @asynccontextmanager
    async def _reach(self, source: Source, by: Principal | None) -> AsyncGenerator[SourceClient]:
        """Yield the client of a source; if it is used with credentials of users, one with that of ``by``."""
        if by is None or self._own_client is None or not needs_user(source):
            yield self._connection(source)
            return
        secrets = await secrets_of(source, self._kernel.secrets, self._kernel.credentials, by)
        async with self._own_client(source, secrets) as client:
            yield client

    def _has_changed(self, key: str) -> bool:
        """Return whether a tool of a source differed from its pin at the last look."""
        report = self._reports.get(key)
        return report is not None and any(tool.state == "changed" for tool in report.tools)

    async def _summary(self, source: Source, pins: Sequence[ToolPin]) -> SourceSummary:
        client = self._connection(source)
        last = self._reports.get(source.pin_key)
        offers = client.known_offers
        state: SourceState = "connected" if client.is_connected else "not connected"
        problem = None
        if not client.is_connected and client.failure is not None:
            state, problem = "unreachable", client.failure.message
        elif offers is None and last is not None:
            problem = last.problem
        report = unlisted(source, pins, problem, () if problem is None else client.last_output)
        if offers is not None:
            unmatched = () if last is None else last.unmatched
            report = replace(report, tools=standings(pins, offers), unmatched=unmatched, is_listed=True)
        unset = [name for name in source.secrets if await self._kernel.secrets.get(name) is None]
        waiting = None
        if offers is not None:
            waiting = sum(standing.state in ("new", "changed") for standing in report.tools)
        need = need_of(report, unset)
        return SourceSummary(source, state, problem, len(pins), waiting, need, report.output)

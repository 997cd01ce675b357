"""Administration commands: the same code works on a server, through its client, or on a local database.

``Administration`` has the same parts and methods as ``capset_server.client.Client``, as far as commands use them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from capset.kernel.governance.acts import acting
from capset.kernel.kernel import Kernel
from capset_cli.common.actors import local_actor
from capset_cli.common.exits import require_extra
from capset_cli.common.remote import run_on_server, select_server
from capset_cli.common.settings import Settings, load_settings, require_db

if TYPE_CHECKING:
    from capset_cli.administration.agents import LocalAgents
    from capset_cli.administration.approvals import LocalApprovals
    from capset_cli.administration.deliveries import LocalDeliveries
    from capset_cli.administration.fingerprints import LocalFingerprints
    from capset_cli.administration.keys import LocalKeys
    from capset_cli.administration.people import LocalPeople
    from capset_cli.administration.runs import LocalRuns
    from capset_cli.administration.sessions import LocalSessions
    from capset_server.client import Client

    Admin: TypeAlias = "Client | Administration"

T = TypeVar("T")


class Administration:
    """Administration of a local database.

    Anyone who can open the database has an administrator's rights. Acts are recorded as those of the principal.
    """

    def __init__(self, kernel: Kernel, settings: Settings, org: str | None) -> None:
        self._kernel = kernel
        self._principal = replace(settings.principal, org=org)
        self._env = settings.env

    # Each part is imported on first use: some import the server, which takes half a second.

    @cached_property
    def agents(self) -> LocalAgents:
        """Agents of the organisation."""
        from capset_cli.administration.agents import LocalAgents

        return LocalAgents(self._kernel, self._principal, self._env)

    @cached_property
    def approvals(self) -> LocalApprovals:
        """Approval requests."""
        from capset_cli.administration.approvals import LocalApprovals

        return LocalApprovals(self._kernel, self._principal)

    @cached_property
    def deliveries(self) -> LocalDeliveries:
        """Deliveries of events to channels."""
        from capset_cli.administration.deliveries import LocalDeliveries

        return LocalDeliveries(self._kernel, self._principal.org)

    @cached_property
    def fingerprints(self) -> LocalFingerprints:
        """Payloads of hashes. Raises ``DefinitionError`` if the extra ``server`` is missing."""
        require_extra("server", "starlette")
        from capset_cli.administration.fingerprints import LocalFingerprints

        return LocalFingerprints(self._kernel, self._principal.org)

    @cached_property
    def keys(self) -> LocalKeys:
        """API keys of every organisation."""
        from capset_cli.administration.keys import LocalKeys

        return LocalKeys(self._kernel)

    @cached_property
    def people(self) -> LocalPeople:
        """Chat users who may decide approval requests."""
        from capset_cli.administration.people import LocalPeople

        return LocalPeople(self._kernel, self._principal)

    @cached_property
    def runs(self) -> LocalRuns:
        """Runs of the organisation. Raises ``DefinitionError`` if the extra ``server`` is missing."""
        require_extra("server", "starlette")
        from capset_cli.administration.runs import LocalRuns

        return LocalRuns(self._kernel, self._principal)

    @cached_property
    def sessions(self) -> LocalSessions:
        """Sessions of the principal. Raises ``DefinitionError`` if the extra ``server`` is missing."""
        require_extra("server", "starlette")
        from capset_cli.administration.sessions import LocalSessions

        return LocalSessions(self._kernel, self._principal, self._env)


def administer(
    url: str | None,
    work: Callable[[Admin], Awaitable[T]],
    *,
    db: str | None,
    org: str | None = None,
    creates: bool = False,
    stored: bool = True,
    **local: Any,  # the other options of load_settings
) -> T:
    """Run ``work`` on a server if one is named, otherwise on a local database, and return its result.

    ``creates`` allows creating the database; ``stored=False`` uses a store in memory instead. Raises
    ``DefinitionError`` if options of the local database are given together with a server's URL.
    """
    server = select_server(url, db=db, org=org, **local)
    if server is not None:
        return run_on_server(server, work)
    settings = load_settings(db=db, **local)
    if not stored:
        settings = replace(settings, db="memory://")
    elif not creates:
        require_db(settings.db)
    return asyncio.run(_administer_database(settings, org, work))


async def _administer_database(settings: Settings, org: str | None, work: Callable[[Admin], Awaitable[T]]) -> T:
    async with Kernel(store=settings.db, redis=settings.redis) as kernel:
        with acting(local_actor(replace(settings.principal, org=org))):
            return await work(Administration(kernel, settings, org))

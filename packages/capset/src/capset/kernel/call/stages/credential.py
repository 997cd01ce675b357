"""Credentials of users: a call that needs one waits until its user has connected, or is made again then (spec 11)."""

from __future__ import annotations

from functools import partial
from typing import Final

from capset.composition.installation import InstalledTool
from capset.definitions.credentials import MissingCredential
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.policies import Policy, ask
from capset.errors import ConnectionRequired, PermissionDenied
from capset.evaluation.policies import Ruling
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.stages.arguments import within_deadline
from capset.kernel.governance.approval_needs import ApprovalNeeds
from capset.kernel.governance.approval_requests import existing_request, open_request
from capset.kernel.governance.approvals import rejection, to_event_data
from capset.kernel.governance.audit import digest_of
from capset.kernel.governance.limits import CallLimits
from capset.kernel.streams.emission import announce

_CONNECTION: Final = Policy("connection", lambda request: False)
"""The policy in whose name a call asks its user to connect."""


def credential(installed: InstalledTool) -> Step | None:
    """Obtain the credential of a user that a tool declares to need."""
    connection = installed.tool.credential
    if connection is None:
        return None
    limits = CallLimits(installed)

    async def obtain_credential(call: Invocation) -> None:
        context = call.context
        source = context.runtime.credentials
        if source is None:
            call.deny("there is no vault for the credentials of users")
            raise PermissionDenied(
                f"Permission denied: {installed.name!r} needs a credential of its user, and this server has no vault.",
                hint="set CAPSET_VAULT_KEY",
            )
        while True:
            lending = source.lend(context.principal, connection, tool=installed.name, agent=context.block.name)
            lent = await within_deadline(call, lending)
            if not isinstance(lent, MissingCredential):
                call.lent_credential = lent
                return
            await _wait_for_connection(call, lent, limits)

    return obtain_credential


async def _wait_for_connection(call: Invocation, missing: MissingCredential, limits: CallLimits) -> None:
    """Wait until a request to connect is decided. Raises ``ConnectionRequired`` if the call does not wait."""
    if missing.owner is None:
        call.deny(missing.reason)
        raise PermissionDenied(f"Permission denied: {missing.reason}.")
    service = call.context.runtime.approvals
    needs = ApprovalNeeds((), connect=missing.connection, owner=missing.owner)
    digest = digest_of(call)
    row = await within_deadline(call, existing_request(call, digest, needs))
    if row is None or row.status == "approved":
        await limits.check(call)  # a call that is over its limit opens no request
        ruling = Ruling("ask", [(_CONNECTION, ask(missing.reason))])
        row = await within_deadline(call, open_request(call, ruling, digest, needs))
    call.decision = call.decision._replace(approval=row.id, reason=missing.reason)
    if row.status == "rejected":
        reason = rejection(row)
        call.deny(reason)
        raise PermissionDenied(f"Permission denied: the request to connect was {reason}")
    if call.options.defers_approval:
        call.deny(missing.reason)
        raise _required_error(row, missing)
    waiting = service.wait(row, partial(announce, call, "approval.requested", to_event_data(row)))
    await within_deadline(call, waiting, "the connection was not made in time for")


def _required_error(row: ApprovalRow, missing: MissingCredential) -> ConnectionRequired:
    return ConnectionRequired(
        f"Permission denied: {missing.reason}. The request is {row.id}; once that is connected, make the same call "
        "again.",
        connection=missing.connection,
        approval=row.id,
        hint=f"connect it: capset connect {missing.connection}",
    )

"""Credentials of users: a call that needs one waits until its user has connected, or is made again then (spec 11)."""

from __future__ import annotations

from functools import partial
from typing import Final

from capset.composition.installation import InstalledTool
from capset.definitions.credentials import LentCredential, MissingCredential
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.policies import Policy, ask
from capset.errors import ApprovalExpired, ConnectionRequired, PermissionDenied
from capset.evaluation.policies import Ruling
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.stages.arguments import request_of, within_deadline
from capset.kernel.call.stages.rechecks import recheck
from capset.kernel.governance.approval_needs import ApprovalNeeds, needed_connection
from capset.kernel.governance.approval_requests import existing_request, open_request, own_request
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

    async def lend(call: Invocation, refused: str | None = None) -> LentCredential | MissingCredential:
        source = call.context.runtime.credentials
        if source is None:
            call.deny("there is no vault for the credentials of users")
            raise PermissionDenied(
                f"Permission denied: {installed.name!r} needs a credential of its user, and this server has no vault.",
                hint="set CAPSET_VAULT_KEY",
            )
        lending = source.lend(request_of(call, installed.tool), connection, refused=refused)
        return await within_deadline(call, lending, "the credential was not renewed in time for")

    async def wait(call: Invocation, missing: MissingCredential) -> LentCredential:
        """Wait until the user has connected. Raises ``ConnectionRequired`` if the call does not wait."""
        service, has_waited, digest = call.context.runtime.approvals, False, digest_of(call)
        decision = call.decision
        while True:
            row = await _request(call, missing, limits, digest)
            lent = await lend(call)  # the user may have connected before the request was stored
            if isinstance(lent, LentCredential):
                await service.complete(row)
                break
            missing = lent
            if call.options.defers_approval:
                call.deny(missing.reason)
                raise _required_error(row, missing)
            waiting = service.wait(row, partial(announce, call, "approval.requested", to_event_data(row)))
            row, has_waited = await within_deadline(call, waiting, "nothing was connected in time for"), True
            _check_open(call, row)
            lent = await lend(call)
            if isinstance(lent, LentCredential):
                break
            missing = lent
        call.decision = decision
        if has_waited:
            await recheck(call, installed.tool, digest, with_approval=True)
        return lent

    async def obtain_credential(call: Invocation) -> None:
        lent = await lend(call)
        if isinstance(lent, MissingCredential):
            lent = await wait(call, lent)
        elif call.options.approval is not None and call.decision.approval is None:
            named = await own_request(call.context, call.options.approval)
            if named is not None and needed_connection(named) is not None:
                call.decision = call.decision._replace(approval=named.id)
        call.lent_credential, call.renew_credential = lent, partial(lend, call)

    return obtain_credential


async def _request(call: Invocation, missing: MissingCredential, limits: CallLimits, digest: str) -> ApprovalRow:
    """Return the open request of a call to connect; a new one if there is none."""
    if missing.owner is None:
        call.deny(missing.reason)
        raise PermissionDenied(f"Permission denied: {missing.reason}.")
    needs = ApprovalNeeds((), connect=missing.connection, owner=missing.owner)
    row = await within_deadline(call, existing_request(call, digest, needs))
    if row is not None and row.status == "approved":  # which decides nothing: the credential is still missing
        await call.context.runtime.approvals.expire_incomplete(row)
        row = None
    if row is None:
        await limits.check(call)  # a call that is over its limit opens no request
        ruling = Ruling("ask", [(_CONNECTION, ask(missing.reason))])
        row = await within_deadline(call, open_request(call, ruling, digest, needs))
    call.decision = call.decision._replace(approval=row.id, reason=missing.reason)
    _check_open(call, row)
    return row


def _check_open(call: Invocation, row: ApprovalRow) -> None:
    """Raise ``PermissionDenied`` or ``ApprovalExpired`` if a request to connect was rejected or has expired."""
    if row.status == "rejected":
        reason = rejection(row)
        call.deny(reason)
        raise PermissionDenied(f"Permission denied: the request to connect was {reason}")
    if row.status == "expired":
        call.deny("nothing was connected in time")
        raise ApprovalExpired("Permission denied: the user did not connect in time.")


def _required_error(row: ApprovalRow, missing: MissingCredential) -> ConnectionRequired:
    return ConnectionRequired(
        f"Permission denied: {missing.reason}. The request is {row.id}; once that is connected, make the same call "
        "again.",
        connection=missing.connection,
        approval=row.id,
        hint=f"connect it: capset connect {missing.connection}",
    )

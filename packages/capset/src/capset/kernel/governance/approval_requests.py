"""Approval requests of calls: what they need and cover, those of equal calls, and new ones (spec 4, G16–G18)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from capset.clock import iso
from capset.composition.installation import InstalledTool
from capset.definitions.capabilities import Risk
from capset.definitions.governance.approvals import ApprovalRow, CallKey
from capset.definitions.governance.approvers import ApprovalSubject, ApproverRule, attribute_json
from capset.definitions.principals import Attributes, Principal
from capset.errors import ArgumentsTooLarge, FileError, LimitExceeded
from capset.evaluation.code import code_of
from capset.evaluation.policies import Ruling
from capset.fingerprint.canonical import PROFILE, canonical
from capset.fingerprint.payloads import tool_payload
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.session_context import SessionContext
from capset.kernel.governance.approval_arguments import check_size
from capset.kernel.governance.approval_needs import ApprovalNeeds, ApproverNeed
from capset.kernel.governance.audit import arguments_to_approve
from capset.kernel.governance.file_arguments import FileArgument, files_json, normalised
from capset.kernel.governance.marked_values import marked_files
from capset.schemas.json_schema_graph import SchemaNode
from capset.schemas.plain_data import plain, reveal_secrets
from capset.stores.base import ArgumentsFull, PayloadRow

MAX_PENDING_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of the arguments of all open requests of an organisation together."""
MAX_FILES: Final = 100
"""Maximum number of files that the arguments of a call that waits for an approval may name."""


async def read_named_files(call: Invocation, root: SchemaNode) -> tuple[FileArgument, ...]:
    """Return the current state of the files that a call's arguments name; ``root`` is the schema of the arguments.

    Raises ``ArgumentsTooLarge`` for more than ``MAX_FILES`` of them.
    """
    named = marked_files(root, plain(reveal_secrets(call.arguments.recorded)))
    if len(named) > MAX_FILES:
        raise ArgumentsTooLarge(
            f"Invalid arguments for {call.compiled.name!r}: a call that waits for an approval may name at most "
            f"{MAX_FILES} files"
        )
    files: list[FileArgument] = []
    for place, path, is_secret in named:
        argument = ".".join(map(str, place))
        try:
            stat, digest = await call.context.files.digest(path)
            files.append(FileArgument(argument, stat.path, stat.size_bytes, digest, is_secret))
        except FileError:
            files.append(FileArgument(argument, normalised(path), None, None, is_secret))
    return tuple(files)


def needs_of(rules: Sequence[ApproverRule], call: Invocation, installed: InstalledTool) -> ApprovalNeeds | None:
    """Return what the rules that apply to a call demand, or ``None`` if none applies."""
    if not rules:
        return None
    subject = _subject(call, installed)
    applicable = [rule for rule in rules if rule.applies_to(subject)]
    if not applicable:
        return None
    needs = [_need(rule, call.context.principal) for rule in applicable if rule.is_selective]
    times = [rule.expires_after for rule in applicable if rule.expires_after is not None]
    return ApprovalNeeds(
        tuple(sorted(needs, key=repr)),
        max(rule.approvals for rule in applicable),
        any(rule.forbid_own for rule in applicable),
        min(times, default=None),
    )


def _subject(call: Invocation, installed: InstalledTool) -> ApprovalSubject:
    """Return the facts about a call; an unknown fact has every possible value, so that any rule may apply."""
    context = call.context
    composition = context.snapshot.composition
    owners = {level.owner for level in installed.levels} | {installed.owner}
    risk_of: dict[str, Risk] = {capability.name: capability.risk for capability in composition.capabilities}
    named = {name for name in (installed.source.capability,) if name is not None} | (owners & risk_of.keys())
    risks: set[Risk] = {"low"} if not named else set()  # a tool of an agent's own
    for name in named:
        risks |= {risk_of[name]} if name in risk_of else {"low", "medium", "high"}
    names = {installed.name, installed.tool.name}
    return ApprovalSubject(
        frozenset(names | {f"{owner}.{name}" for owner in owners for name in names}),
        frozenset({context.block.name, context.agent.name}),
        installed.tool.effect,
        frozenset(risks),
    )


def _need(rule: ApproverRule, requester: Principal) -> ApproverNeed:
    allowed = {name: [*values] for name, values in rule.attributes.items()}
    for name in rule.same_attributes:
        values = _common_value(name, (requester.attributes, *requester.on_behalf_of_attributes))
        if name in allowed:
            allowed_texts = set(map(attribute_json, allowed[name]))
            values = [value for value in values if attribute_json(value) in allowed_texts]
        allowed[name] = values
    return ApproverNeed(
        rule.permission,
        dict(sorted(allowed.items())),
        sorted(rule.same_attributes),
        rule.escalate_after,
        rule.escalate_to,
    )


def _common_value(name: str, people: Sequence[Attributes]) -> list[Any]:  # as attributes are
    """Return the single value that a requester and those it acts for state; none if they state several."""
    values = {
        attribute_json(attributes[name]): attributes[name]
        for attributes in people
        if name in attributes and attributes[name] is not None
    }
    return [*values.values()] if len(values) == 1 else []


async def own_request(context: SessionContext, id: str) -> ApprovalRow | None:
    """Return the request with this id if the session's own principal has made it here; otherwise ``None``."""
    principal = context.principal
    row = await context.runtime.approvals.find(id, principal.org)
    owner = (context.id, principal.qualified_id, principal.on_behalf_of)
    return row if row is not None and (row.session, row.principal, row.on_behalf_of) == owner else None


async def existing_request(call: Invocation, digest: str, needs: ApprovalNeeds | None) -> ApprovalRow | None:
    """Return the request that applies to a call: an unexpired one of an equal call with equal needs."""
    context, tool = call.context, call.compiled
    principal, runtime = context.principal, context.runtime
    equal = CallKey(
        org=principal.org,
        session=context.id,
        agent=context.block.name,
        principal=principal.qualified_id,
        on_behalf_of=principal.on_behalf_of,
        tool=tool.name,
        tool_hash=tool.hash or "",
        digest=digest,
        needs=needs and needs.to_json(),
        code_hash=(_code_hash(call) or "") if runtime.governance.code_voids_approvals else None,
    )
    return await runtime.store.approvals.standing(equal, iso(runtime.clock.time_ns()))


async def open_request(call: Invocation, question: Ruling, digest: str, needs: ApprovalNeeds | None) -> ApprovalRow:
    """Open an approval request for a call, or join that of an equal call, and return it.

    Raises ``ArgumentsTooLarge``, and ``LimitExceeded`` if too many of the principal's requests are open, or the
    arguments of all open requests of the org are too large together.
    """
    context, tool = call.context, call.compiled
    runtime = context.runtime
    arguments, unmasked = arguments_to_approve(call)
    for text in (arguments, unmasked):
        check_size(tool.name, text or "")
    now = runtime.clock.time_ns()
    seconds = (needs and needs.expires_after) or runtime.governance.approval_seconds
    row = ApprovalRow(
        id=runtime.ids.new(),
        call=call.id,
        org=context.principal.org,
        session=context.id,
        agent=context.block.name,
        principal=context.principal.qualified_id,
        on_behalf_of=context.principal.on_behalf_of,
        tool=tool.name,
        tool_hash=tool.hash or "",
        runtime_hash=context.snapshot.runtime_hash,
        arguments=arguments,
        unmasked=unmasked,
        files=files_json(call.named_files),
        digest=digest,
        reason=question.reason if runtime.redactor is None else runtime.redactor(question.reason),
        policies=json.dumps(question.policies),
        created_at=iso(now),
        expires_at=iso(now + round(seconds * 1e9)),
        code_hash=_code_hash(call),
        needs=needs and needs.to_json(),
        escalates_at=needs and needs.next_escalation(iso(now)),
        makers=json.dumps(context.principal.makers) if context.principal.makers else None,
    )
    if tool.tool is not None and tool.hash is not None:
        # An approver in another process needs the schema to check changed arguments.
        payloads = [PayloadRow(row.org, tool.hash, PROFILE, "tool", canonical(tool_payload(tool.tool)).decode())]
        code = code_of(tool.tool)
        if code.hash is not None and code.covers is not None:
            payloads.append(PayloadRow(row.org, code.hash, PROFILE, "code", code.covers))
        await runtime.store.lineage.record_payloads(payloads, named_at=row.created_at)
    limit = runtime.governance.pending_approvals
    by_code = runtime.governance.code_voids_approvals
    deliveries = runtime.deliveries.for_event("approval.requested", row)
    try:
        opened = await runtime.store.approvals.open(
            row, max_pending=limit, max_bytes=MAX_PENDING_BYTES, by_code=by_code, deliveries=deliveries
        )
    except ArgumentsFull:
        call.deny("the arguments of open approval requests are too large together")
        raise LimitExceeded(
            f"Rate limit exceeded: the arguments of this organisation's requests that wait for approvals may have at "
            f"most {MAX_PENDING_BYTES} bytes together (pending_arguments).",
            hint="have some of them decided, or wait until they expire",
        ) from None
    if opened is None:
        call.deny(f"{limit} approval requests are open")
        raise LimitExceeded(
            f"Rate limit exceeded: {limit} requests of this principal already wait for approval.",
            hint="have some of them decided, or wait until they expire",
        )
    runtime.deliveries.wake(deliveries)
    return opened


def has_different_code(row: ApprovalRow, call: Invocation) -> bool:
    """Whether a request was for other code than the call's, and the governance says that this voids it."""
    return call.context.runtime.governance.code_voids_approvals and row.code_hash != _code_hash(call)


def _code_hash(call: Invocation) -> str | None:
    """Return the hash of a call's code, if it has one."""
    return None if call.compiled.tool is None else code_of(call.compiled.tool).hash

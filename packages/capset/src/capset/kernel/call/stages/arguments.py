"""The phase ``arguments``: validates the arguments, keeps a snapshot of them, and asks policies (spec 4, G11, G12)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from pydantic import Secret, ValidationError
from typing_extensions import TypeVar

from capset.composition.installation import InstalledTool, PolicyBinding
from capset.definitions.calls.messages import Json
from capset.definitions.governance.hooks import merge_hooks
from capset.definitions.governance.policies import Decision, Policy, Request
from capset.definitions.tools.definition import AnyTool
from capset.errors import ArgumentsTooLarge, DeadlineExceeded, InvalidArguments, PermissionDenied
from capset.evaluation.policies import evaluate_all, evaluate_eagerly, notify_evaluated, rule, stored_answer
from capset.fingerprint.sets import sorted_sets
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.invocation import UNDECIDED, CallArguments, CallDecision, Invocation
from capset.kernel.named_tuples import new_tuple
from capset.schemas.plain_data import plain, plain_json, plain_with_all_parts, secrets_in
from capset.schemas.schema import Schema, is_finite
from capset.schemas.validation_errors import VALIDATION_ERRORS, SchemaMismatch, validation_fields


def validation(installed: InstalledTool) -> Step:
    """Validate strictly and fill in defaults: JSON text as JSON, arguments passed in process as Python."""
    name, schema = installed.name, installed.tool.arguments
    check, check_json, only_scalars = schema.check, schema.check_json, schema.only_scalars
    check_stored = schema.check_stored
    max_bytes = installed.tool.argument_bytes
    may_be_infinite, contract = schema.may_be_infinite, installed.tool.contract

    def step(call: Invocation) -> None:
        received = call.raw_arguments
        if received is call.arguments.source:  # the call has waited, and its arguments are unchanged
            return
        if type(received) is Json and len(received.text) > max_bytes:
            raise ArgumentsTooLarge(f"Invalid arguments for {name!r}: at most {max_bytes} bytes of JSON are allowed")
        try:
            if type(received) is not Json:
                values = validated = check(received)
            elif call.options.approval is None and call.decision.approval is None:
                values = validated = check_json(received.text)
            else:  # approved arguments may come from the store, also those that an approver was shown and has changed
                values = validated = check_stored(received.text)
            inbound = None
            if contract is not None:
                inbound, values = contract.receive(validated)
        except VALIDATION_ERRORS as error:
            raise arguments_error(call, schema, error) from None
        if may_be_infinite and type(received) is Json and not is_finite(validated):
            raise InvalidArguments(f"Invalid arguments for {name!r}: JSON has no NaN and no infinities")
        # Scalars cannot be changed by a handler, so the validated mapping itself serves as the record's snapshot.
        recorded, secrets = (values, None) if only_scalars else _recordable(schema, validated)
        call.arguments = new_tuple(CallArguments, (values, recorded, received, inbound, secrets))

    return step


def arguments_error(call: Invocation, schema: Schema, error: ValidationError | SchemaMismatch) -> InvalidArguments:
    """Return the error for arguments that do not fit their schema."""
    received = call.raw_arguments
    raw_data = plain_json(received.text) if type(received) is Json else received
    fields = validation_fields(error, schema.names, raw_data)
    problems = "; ".join(map(str, fields))
    return InvalidArguments(f"Invalid arguments for {call.compiled.name!r}: {problems}", fields=fields)


def _recordable(schema: Schema, arguments: Any) -> tuple[Any, Secret[list[Any]] | None]:
    """Return a snapshot of validated arguments, as plain JSON data out of reach of other code, and their secrets."""
    form = schema.json_form
    try:
        recorded = schema.jsonable(arguments)
        if form.has_sets:
            recorded = sorted_sets(arguments, recorded)
    except (ValueError, RecursionError):
        recorded = plain(arguments)
    secrets = secrets_in(arguments)
    if form.leaves_out:  # omitted values distinguish calls, as secrets do, although the record does not show them
        try:
            secrets.append(plain_with_all_parts(arguments))
        except RecursionError:
            raise InvalidArguments("Invalid arguments: they are nested too deeply to be on record") from None
    return recorded, Secret(secrets) if secrets else None


def refresh_recorded(call: Invocation, tool: AnyTool) -> None:
    """Take a new snapshot of a call's arguments, which an in-process caller may have changed."""
    recorded, secrets = _recordable(tool.arguments, call.arguments.values)
    call.arguments = call.arguments._replace(recorded=recorded, secrets=secrets)


T = TypeVar("T")
_Answer = tuple[Policy, Decision]


def policy(installed: InstalledTool) -> Step | None:
    """Refuse a call that any policy denies. All are asked, so that the record names every policy that decided.

    If one asks for an approval and none denies, the approval stage handles that.
    """
    tool, policies = installed.tool, installed.policies
    if not policies:
        return None
    allowed_decision = allowed_by(policies)
    gates: Mapping[Policy, PolicyBinding] = {gate.policy: gate for gate in installed.policy_bindings}
    are_simple = installed.has_simple_policies
    has_hooks = any(gate.hooks.on_policy_evaluated for gate in gates.values())

    async def ask_policies(call: Invocation) -> list[_Answer]:
        if are_simple:
            return await evaluate_all(policies, request_of(call, tool))
        snapshot, answers = call.context.snapshot, list[_Answer]()
        for gate_policy in policies:
            answer = None if gate_policy.is_live else stored_answer(gate_policy, snapshot.answers, snapshot.policy_mode)
            answers += (
                [(gate_policy, answer)]
                if answer is not None
                else await evaluate_all((gate_policy,), request_of(call, tool))
            )
        return answers

    async def notify_hooks(call: Invocation, answers: list[_Answer]) -> None:
        snapshot = call.context.snapshot
        for gate_policy, decision in answers:
            if gate_policy.is_live or stored_answer(gate_policy, snapshot.answers, snapshot.policy_mode) is None:
                gate = gates[gate_policy]
                await notify_evaluated(
                    gate_policy, decision, request_of(call, tool), merge_hooks(gate.hooks, snapshot.hooks), gate.owner
                )

    def step(call: Invocation) -> Awaitable[None] | None:
        if not are_simple or call.options.deadline is not None or call.context.snapshot.hooks.on_policy_evaluated:
            return decide(call, within_deadline(call, ask_policies(call)))
        pending = evaluate_eagerly(policies, request_of(call, tool))
        return apply_answers(call, (), allowed_decision) if pending is None else decide(call, pending)

    async def decide(call: Invocation, asking: Awaitable[list[_Answer]]) -> None:
        answers = await asking
        if has_hooks or call.context.snapshot.hooks.on_policy_evaluated:
            await notify_hooks(call, answers)
        apply_answers(call, answers, allowed_decision)

    return step


def allowed_by(policies: Sequence[Policy]) -> CallDecision:
    """Return the decision so far on a call that all of these policies allow."""
    return CallDecision(policies=tuple(gate_policy.id for gate_policy in policies))


def apply_answers(call: Invocation, answers: Sequence[_Answer], allowed_decision: CallDecision) -> None:
    """Apply the answers of the policies to the call's decision. Raises ``PermissionDenied`` for a denial."""
    for _, decision in answers:
        if decision.kind != "allow":
            break
    else:
        call.decision = (
            allowed_decision
            if call.decision is UNDECIDED
            else call.decision._replace(policies=allowed_decision.policies)
        )
        return
    ruling = rule(answers)
    if ruling.kind == "ask":
        call.decision = call.decision._replace(policies=ruling.policies, question=ruling)
    else:
        call.deny(ruling.detail, ruling.policies)
        raise PermissionDenied(f"Permission denied: {ruling.reason}")


def request_of(call: Invocation, tool: AnyTool) -> Request:
    """Return the request about a call that a policy receives.

    Its lists and models are copies: a policy that changes one affects neither the next policy nor the handler.
    """
    values = call.arguments.values
    arguments = values if tool.arguments.only_scalars else deepcopy(values)
    return Request(call.context.snapshot.env, call.context.principal, tool, MappingProxyType(arguments))


async def within_deadline(call: Invocation, asking: Awaitable[T], reason: str = "the policies took too long for") -> T:
    """Wait for an answer until the call's deadline, if it has one. Raises ``DeadlineExceeded`` with the ``reason``."""
    if call.options.deadline is None:
        return await asking
    try:
        async with asyncio.timeout_at(call.options.deadline):
            return await asking
    except TimeoutError:
        raise DeadlineExceeded(f"Deadline exceeded: {reason} {call.compiled.name!r}.") from None

"""From a composition to a snapshot: policies asked, dynamic toolkits made, what is in play decided (spec 2, F21)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypedDict

from capset.composition.compose import Composition
from capset.definitions.contexts import Context
from capset.definitions.hooks import Hooks, checked_hooks
from capset.definitions.policies import Decision, Request
from capset.definitions.principals import Principal
from capset.evaluation.evaluating import Evaluating
from capset.evaluation.growing import grown
from capset.evaluation.plan import plan_of
from capset.evaluation.snapshot import Snapshot
from capset.fingerprint.hashes import invocation_hash

EVALUATION_SECONDS: Final = 10.0
"""How long the policies and the dynamic toolkits of one evaluation may take together, hooks not counted."""


class Labels(TypedDict, total=False):
    """What a host may say of one evaluation beside the principal and the environment; see ``evaluate``."""

    namespace: str | None
    agent_id: str | None
    agent_name: str | None
    invocation: Mapping[str, Any] | None
    invocation_allowlist: Iterable[str]
    hooks: Hooks | None


async def evaluate(
    composition: Composition,
    *,
    principal: Principal,
    env: Mapping[str, Any] | None = None,
    namespace: str | None = None,
    agent_id: str | None = None,
    agent_name: str | None = None,
    invocation: Mapping[str, Any] | None = None,
    invocation_allowlist: Iterable[str] = (),
    context: Context | None = None,
    hooks: Hooks | None = None,
    timeout: float = EVALUATION_SECONDS,
    results: Mapping[str, Decision] | None = None,
) -> Snapshot:
    """Decide which tools are in play. Every policy object is asked once, however many tools carry it (F17).

    Never shrinks silently: ``explain`` has a reason for every tool, and a dynamic toolkit that fails, fails the
    evaluation (F22).

    Args:
        composition: what there is.
        principal: who acts.
        env: what the host knows of this environment, in values of its own, which policies and handlers read; it never
            comes from the body of a request (F16).
        namespace: a label of the host's, for dynamic toolkits and envelopes; as ``agent_id`` and ``agent_name``.
        agent_id: see ``namespace``.
        agent_name: see ``namespace``; the block's name if left out.
        invocation: for whom this runs; hashed into ``invocation_hash``, see ``normalize_invocation``.
        invocation_allowlist: the keys of ``invocation`` that count; empty, all do.
        context: what dynamic ``uses`` see; without it they add nothing.
        hooks: told of every policy now, and of the calls made with the snapshot; after all others.
        timeout: seconds for policies and dynamic toolkits together. A policy that is not done by then denies.
        results: what policies said before, by their ids; they are not asked again, and no hook is told.

    Raises ``ToolkitFailed``, ``InvalidArguments`` for an invocation that cannot be hashed, and what dynamic ``uses``
    raise.
    """
    hashed = None if invocation is None else invocation_hash(invocation, invocation_allowlist)
    if context is not None and composition.dynamic:
        composition = grown(composition, context)
    frozen_env = MappingProxyType(dict(env or {}))
    called = composition.block.name if agent_name is None else agent_name
    run_hooks = checked_hooks("evaluate", hooks)
    plan = plan_of(composition)
    evaluating = Evaluating(plan, Request(frozen_env, principal), run_hooks, (namespace, agent_id, called), results)
    await evaluating.take_steps(timeout)
    plan = evaluating.plan(composition)
    answers = MappingProxyType(evaluating.answers)
    left_out = plan.left_out(principal.permissions, answers)
    told = plan.told(left_out, answers)
    return Snapshot(
        composition,
        principal,
        frozen_env,
        plan,
        left_out,
        answers,
        told,
        plan.runtime_hash(left_out),
        plan.prompt_hash(told),
        hashed,
        MappingProxyType(evaluating.toolkits),
        namespace,
        agent_id,
        called,
        run_hooks,
    )


async def evaluate_again(snapshot: Snapshot, composition: Composition) -> Snapshot:
    """Evaluate another composition on the same occasion: the same principal, environment, labels and hooks."""
    again = await evaluate(
        composition,
        principal=snapshot.principal,
        env=snapshot.env,
        namespace=snapshot.namespace,
        agent_id=snapshot.agent_id,
        agent_name=snapshot.agent_name,
        hooks=snapshot.hooks,
    )
    again = replace(again, invocation_hash=snapshot.invocation_hash)
    return again if snapshot.refused is None else again.closed(snapshot.refused)

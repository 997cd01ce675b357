"""What one principal may use, here and now, and why not the rest: the second arrow of the straight way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from capset.composition.compose import Composition
from capset.composition.merge import Installed
from capset.definitions.policies import Decision, Policy, Request
from capset.definitions.principals import Principal
from capset.errors import NotFound, unknown
from capset.evaluation.policies import ask_each, denials
from capset.fingerprint.hashes import Ref, prompt_hash, runtime_hash, tool_hash


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a tool is in play, why, and the ids of the policies that decided."""

    in_play: bool
    reason: str
    policies: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Snapshot:
    """A composition as seen by one principal in one environment; made by ``evaluate()``.

    ``tools`` are those in play and ``tool_refs`` their names and hashes, by name; ``runtime_hash`` and ``prompt_hash``
    are 64 hexadecimal digits. ``env``'s values are the host's own.
    """

    composition: Composition
    principal: Principal
    env: Mapping[str, Any]
    tools: Mapping[str, Installed]
    verdicts: Mapping[str, Verdict]
    tool_refs: tuple[Ref, ...]
    runtime_hash: str
    prompt_hash: str

    @property
    def static_hash(self) -> str:
        """The hash of the composition."""
        return self.composition.static_hash

    @property
    def instructions(self) -> tuple[str, ...]:
        """What ``prompt_hash`` covers beside the system prompt."""
        return self.composition.instructions

    def explain(self, tool: str) -> Verdict:
        """Say whether a tool is in play, and why. Raises ``NotFound`` for a name that the composition has not."""
        try:
            return self.verdicts[tool]
        except KeyError:
            raise NotFound(unknown("tool", tool, self.verdicts)) from None


async def evaluate(composition: Composition, *, principal: Principal, env: Mapping[str, Any] | None = None) -> Snapshot:
    """Decide which tools are in play. Every policy object is asked once, however many tools carry it (F17).

    ``env`` is what the host knows of this environment (values of any type, read by policies and handlers); it never
    comes from the body of a request. Never shrinks silently: ``explain`` has a reason for every tool (F22).
    """
    frozen_env = MappingProxyType(dict(env or {}))
    answers = await _answers(composition, Request(frozen_env, principal))
    verdicts = {name: _verdict(installed, principal, answers) for name, installed in composition.tools.items()}
    tools = {name: installed for name, installed in composition.tools.items() if verdicts[name].in_play}
    references = tuple(sorted((Ref(n, tool_hash(i.tool)) for n, i in tools.items()), key=lambda ref: ref.name))
    return Snapshot(
        composition,
        principal,
        frozen_env,
        MappingProxyType(tools),
        MappingProxyType(verdicts),
        references,
        runtime_hash(references),
        prompt_hash(composition.block.system_prompt, composition.instructions),
    )


async def _answers(composition: Composition, request: Request) -> Mapping[Policy, Decision]:
    policies = dict.fromkeys(policy for one in composition.tools.values() for policy in one.gates)
    return dict(await ask_each(policies, request))


def _verdict(installed: Installed, principal: Principal, answers: Mapping[Policy, Decision]) -> Verdict:
    if missing := sorted(installed.tool.permissions - principal.permissions):
        return Verdict(False, f"{principal.id} lacks the permission {' and '.join(missing)}")
    if refused := denials((policy, answers[policy]) for policy in installed.gates):
        reasons = "; ".join(decision.reason or policy.id for policy, decision in refused)
        return Verdict(False, reasons, tuple(policy.id for policy, _ in refused))
    gates = tuple(policy.id for policy in installed.gates)
    return Verdict(True, f"allowed by {', '.join(gates)}" if gates else "no policy stands against it", gates)

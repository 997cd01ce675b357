"""The phases of the pipeline: a stage may stand in any, and sees what it must (spec 4, G1, G2, G18)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from capset import Agent, Capability, Context, Json, Policy
from capset.composition.installation import InstalledTool
from capset.errors import CapsetError, LimitExceeded, PermissionDenied, ToolError, Unauthenticated
from capset.ext import Answer
from capset.kernel.call import compilation
from capset.kernel.call.compiled_tools import PHASES, Phase, Step
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.stages.phases import STAGES
from tests.helpers.evaluation.things import make
from tests.helpers.kernel.governance.approving import till
from tests.helpers.kernel.support import desk, opened

SECRET = "the account holds 7"


def add_stage(monkeypatch: pytest.MonkeyPatch, phase: Phase, step: Step, *, is_first: bool = False) -> None:
    """Put a stage at the end of a phase, as somebody would who follows the recipe, or else at its beginning."""

    def stage(installed: InstalledTool) -> Step:
        return step

    stages = (stage, *STAGES[phase]) if is_first else (*STAGES[phase], stage)
    monkeypatch.setattr(compilation, "STAGES", {**STAGES, phase: stages})


def arguments_of(call: Invocation) -> dict[str, Any]:
    """Return the arguments as a stage can read them: validated, or as they were given until then."""
    if call.arguments.source is call.raw_arguments:
        return dict(call.arguments.values)
    return json.loads(call.raw_arguments.text) if isinstance(call.raw_arguments, Json) else dict(call.raw_arguments)


@pytest.mark.spec("G1", "G18")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("door", ["waits", "again"])
async def test_a_stage_that_reads_arguments_sees_those_that_the_approver_has_chosen(
    monkeypatch: pytest.MonkeyPatch, phase: Phase, door: str
) -> None:
    observed_arguments: list[dict[str, Any]] = []
    add_stage(monkeypatch, phase, lambda call: observed_arguments.append(arguments_of(call)))
    changed = Answer(approved=True, arguments={"to": "bob", "amount": 1})
    async with till() as open_till:
        session = await open_till.session()
        if door == "waits":
            paying = asyncio.ensure_future(session.call(open_till.pay, to="bob", amount=5))
            await open_till.decided((await open_till.waiting()).id, changed)
            assert await paying == "bob has 1"
        else:
            await open_till.decided(await open_till.asked(session), changed)
            result = await open_till.made(session)
            assert result.data == "bob has 1"
        assert open_till.paid == [("bob", 1)]
    assert observed_arguments[-1] == {"to": "bob", "amount": 1}


@pytest.mark.spec("G1", "G18")
@pytest.mark.parametrize("read", ["values", "recorded", "inbound"])
@pytest.mark.parametrize(("phase", "is_first"), [("identify", False), ("authorize", False), ("arguments", True)])
async def test_a_stage_that_reads_validated_arguments_too_early_lets_no_call_through(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, phase: Phase, is_first: bool, read: str
) -> None:
    def step(call: Invocation) -> None:
        if (getattr(call.arguments, read) or {}).get("amount", 0) > 9:
            raise PermissionDenied("too much")

    add_stage(monkeypatch, phase, step, is_first=is_first)
    async with till() as open_till:
        session = await open_till.session()
        with pytest.raises(CapsetError):
            await session.call(open_till.pay, to="bob", amount=1)
        assert "validated in the phase 'arguments'" in caplog.text
        assert open_till.paid == []


@pytest.mark.spec("G1", "G2")
@pytest.mark.parametrize("phase", ["arguments", "admit", "run", "result"])
async def test_no_stage_tells_of_a_tool_that_may_not_be_used(monkeypatch: pytest.MonkeyPatch, phase: Phase) -> None:
    def tell(call: Invocation) -> None:
        raise ToolError(SECRET)

    look = make("look", Policy("members", lambda request: "till:member" in request.principal.permissions))
    add_stage(monkeypatch, phase, tell)
    for permissions, error in (((), PermissionDenied), (("till:member",), ToolError)):
        async with desk(look, permissions=permissions) as harness:
            results = [
                await harness.session.try_message(harness.session.message(name, arguments))
                for name, arguments in (("look", {}), ("kit.look", {"no": "such"}))
            ]
        assert type(results[0].error) is error
        for refusal in [result.error for result in results if error is PermissionDenied]:
            assert type(refusal) is PermissionDenied
            assert SECRET not in f"{refusal}{refusal.hint}"
            assert "no" not in [field.path for field in refusal.fields]


@pytest.mark.spec("G1", "G19")
@pytest.mark.parametrize("phase", ["identify", "authorize", "arguments", "admit"])
@pytest.mark.parametrize("says", [None, "the till is shut"])
@pytest.mark.parametrize(
    ("error", "outcome"),
    [(PermissionDenied, "denied"), (LimitExceeded, "limited"), (Unauthenticated, "unauthenticated")],
)
async def test_a_stage_that_refuses_a_call_has_decided_on_it_whether_or_not_it_says_so(
    monkeypatch: pytest.MonkeyPatch, phase: Phase, says: str | None, error: type[CapsetError], outcome: str
) -> None:
    def refuse(call: Invocation) -> None:
        if says is not None:
            call.deny(says)
        raise error("not today")

    look = make("look", effect="write")
    add_stage(monkeypatch, phase, refuse)
    async with desk(look) as harness:
        assert type((await harness.session.try_call(look)).error) is error
        record = await harness.record()
    assert (record.decision, record.reason, record.outcome) == ("deny", says or "not today", outcome)


@pytest.mark.spec("G1", "C27")
@pytest.mark.parametrize("phase", PHASES)
async def test_a_call_by_dynamic_uses_goes_through_every_phase(monkeypatch: pytest.MonkeyPatch, phase: Phase) -> None:
    tool_names: list[str] = []
    add_stage(monkeypatch, phase, lambda call: tool_names.append(call.compiled.name))
    greet = make("greet", effect="write")

    def uses(ctx: Context) -> list[Capability]:
        return [Capability("kit", tools=[greet])]

    async with opened(Agent("host", uses=[uses])) as harness:
        assert await harness.session.call(greet) == "greet"
    assert tool_names == ["greet"]

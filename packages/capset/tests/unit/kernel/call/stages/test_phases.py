"""The phases of the pipeline: a stage may stand in any, and sees what it must (spec 4, G1, G2, G18)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from capset import Agent, Capability, Context, Json, Kernel, Principal, Request, policy, tool
from capset.composition.installation import Installed
from capset.errors import CapsetError, LimitExceeded, PermissionDenied, ToolError, Unauthenticated
from capset.ext import Answer
from capset.kernel.call import compilation
from capset.kernel.call.compiled_tools import PHASES, Phase, Step
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.stages.phases import STAGES
from tests.helpers.kernel.governance.approving import till

SECRET = "the account holds 7"


def add_stage(monkeypatch: pytest.MonkeyPatch, phase: Phase, step: Step, *, is_first: bool = False) -> None:
    """Put a stage at the end of a phase, as somebody would who follows the recipe, or else at its beginning."""

    def stage(installed: Installed) -> Step:
        return step

    stages = (stage, *STAGES[phase]) if is_first else (*STAGES[phase], stage)
    monkeypatch.setattr(compilation, "STAGES", {**STAGES, phase: stages})


def arguments_of(call: Invocation) -> dict[str, Any]:
    """Return the arguments as a stage can read them: validated, or as they were given until then."""
    if call.arguments.given is call.given:
        return dict(call.arguments.values)
    return json.loads(call.given.text) if isinstance(call.given, Json) else dict(call.given)


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
async def test_no_stage_tells_those_who_may_not_use_a_tool_more_than_that(
    monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    def tell(call: Invocation) -> None:
        raise ToolError(SECRET)

    @policy
    def members(request: Request) -> bool:
        return "till:member" in request.principal.permissions

    @tool(policies=[members])
    async def look() -> str:
        """Look at the account."""
        return SECRET

    add_stage(monkeypatch, phase, tell)
    agent = Agent("clerk", uses=[Capability("till", tools=[look])])
    stranger, member = Principal("eve"), Principal("ada", permissions=["till:member"])
    async with Kernel(store="memory://") as kernel:
        for principal, error in ((stranger, PermissionDenied), (member, ToolError)):
            async with kernel.open(agent, principal=principal) as session:
                for message in (session.message("look", {}), session.message("till.look", {"no": "such"})):
                    result = await session.try_message(message)
                    assert type(result.error) is error or principal is member
                    assert result.error is not None
                    if principal is stranger:
                        assert SECRET not in f"{result.error}{result.error.hint}"
                        assert "no" not in [field.path for field in result.error.fields]


@pytest.mark.spec("G1", "G19")
@pytest.mark.parametrize("phase", ["identify", "authorize", "arguments", "admit"])
@pytest.mark.parametrize("says", [None, "the till is shut"])
@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (PermissionDenied("not today"), "denied"),
        (LimitExceeded("not today"), "limited"),
        (Unauthenticated("not today"), "unauthenticated"),
    ],
)
async def test_a_stage_that_refuses_a_call_has_decided_on_it_whether_or_not_it_says_so(
    monkeypatch: pytest.MonkeyPatch, phase: Phase, says: str | None, error: CapsetError, outcome: str
) -> None:
    def refuse(call: Invocation) -> None:
        if says is not None:
            call.deny(says)
        raise error

    @tool
    async def look() -> None:
        """Look at the account."""

    add_stage(monkeypatch, phase, refuse)
    agent = Agent("clerk", tools=[look])
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=Principal("ada")) as session:
        result = await session.try_call(look)
        assert type(result.error) is type(error)
        await kernel.audit.flush()
        *_, record = await kernel.audit.read()
    assert (record.decision, record.reason, record.outcome) == ("deny", says or "not today", outcome)


@pytest.mark.spec("G1", "C27")
@pytest.mark.parametrize("phase", PHASES)
async def test_a_call_whose_agent_decides_what_it_uses_goes_through_every_phase(
    monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    tool_names: list[str] = []
    add_stage(monkeypatch, phase, lambda call: tool_names.append(call.compiled.name))

    @tool
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    kit = Capability("kit", tools=[greet])
    uses: Callable[[Context], list[Capability]] = lambda ctx: [kit]  # noqa: E731
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("host", uses=[uses]), principal=Principal("ada")) as session,
    ):
        assert await session.call(greet, name="Ada") == "Hello Ada"
    assert tool_names == ["greet"]

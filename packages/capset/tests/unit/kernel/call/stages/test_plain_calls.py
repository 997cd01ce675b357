"""Plain calls: begun in one function, they come to what they come to step by step (spec 4, G1, G33)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from capset import Agent, Decision, Principal, Request, allow, ask, deny, policy, tool
from capset.definitions.calls.records import COLUMNS
from capset.definitions.governance.limits import Limit
from capset.definitions.governance.policies import Policy
from capset.definitions.governance.settings import Governance
from capset.errors import ToolError
from capset.kernel.call import compilation
from tests.helpers.kernel.support import desk, opened

OF_THE_CALL = frozenset(COLUMNS) - {
    *("seq", "id", "time", "correlation", "session", "duration_us", "writer", "previous", "hash", "approval"),
    "arguments_digest",  # each kernel has a key of its own
}
"""The columns that are the same however the call began."""


class Gone(BaseException):
    """Passes everything on its way."""


def raised(error: BaseException) -> Any:
    raise error


async def later(answer: Decision | bool) -> Decision | bool:
    await asyncio.sleep(0)
    return answer


ANSWERS: dict[str, Callable[[Request], Any]] = {
    "true": lambda request: True,
    "allow": lambda request: allow(),
    "another allow": lambda request: Decision("allow", "why not"),
    "false": lambda request: False,
    "deny": lambda request: deny("not today"),
    "ask": lambda request: ask("may I?"),
    "later": lambda request: later(answer=True),
    "later no": lambda request: later(deny("not now")),
    "reads": lambda request: (request.arguments or {}).get("number", 0) < 5,
    "fails": lambda request: raised(ValueError("out of order")),
    "nonsense": lambda request: "yes",
}


async def handle(number: int, word: str = "") -> int:
    match word:
        case "tells":
            raise ToolError("there is no such number")
        case "fails":
            raise ValueError("secret")
        case "cancelled":
            raise asyncio.CancelledError
        case "gone":
            raise Gone
        case "unfit":
            return "no number"  # pyright: ignore[reportReturnType]  # on purpose
        case "long":
            return 10**5000
        case _:
            return number


@contextmanager
def step_by_step() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "plain_call", lambda *arguments: None)
        yield


@pytest.mark.property
@pytest.mark.spec("G1", "G33")
@given(
    st.lists(st.sampled_from(sorted(ANSWERS)), max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from([{"number": 1}, {"number": 7}, {"number": "1"}, {}, {"number": 1, "other": 2}]),
            st.sampled_from(["", "", "tells", "fails", "unfit", "long", "cancelled", "gone"]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(["user", "anonymous"]),
    st.booleans(),
)
@example(["allow"], [({"number": 1}, ""), ({"number": 1}, "")], 1, "user", False)
@example(["true", "later"], [({"number": 1}, ""), ({"number": 1}, "")], 1, "user", False)
@example(["ask", "allow"], [({"number": 1}, ""), ({"number": 1}, "")], None, "user", False)
def test_a_plain_call_comes_to_what_it_comes_to_step_by_step(
    answers: list[str], calls: list[tuple[dict[str, Any], str]], limit: int | None, kind: Any, require_auth: bool
) -> None:
    policies = [Policy(f"p{place}", ANSWERS[answer]) for place, answer in enumerate(answers)]
    look = replace(
        tool(effect="read", name="look", description="Look at a number.")(handle),
        policies=tuple(policies),
        limits=() if limit is None else (Limit(limit, "1h", scope="process"),),
    )

    async def run_calls() -> list[Any]:
        agent, principal = Agent("clerk", tools=[look]), Principal("ada", kind=kind)
        async with opened(agent, principal=principal, governance=Governance(require_auth=require_auth)) as harness:
            session = harness.session.options(approvals="defer")
            outcomes: list[Any] = [
                await outcome(session.try_call(look, **arguments, word=word)) for arguments, word in calls
            ]
            records = [asdict(record) for record in await harness.records()]
        return outcomes + [{name: record[name] for name in OF_THE_CALL} for record in records]

    plainly = asyncio.run(run_calls())
    with step_by_step():
        assert asyncio.run(run_calls()) == plainly


async def outcome(called: Awaitable[Any]) -> Any:
    try:
        result = await called
    except BaseException as error:
        return type(error)
    message = re.sub(r"[0-9a-f]{8}-[-0-9a-f]{27}|in [0-9.]+ s", "…", str(result.error))
    return result.success, result.data, result.refused, type(result.error), message


@pytest.mark.spec("G33")
@pytest.mark.parametrize(
    ("is_plain", "changed"),
    [
        (True, {}),
        (True, {"policies": (policy("open", lambda request: True),)}),
        (True, {"limits": (Limit(5, "1s", scope="process"),)}),
        (False, {"limits": (Limit(5, "1s", scope="shared"),)}),
        (False, {"effect": "write"}),
        (False, {"approval": "ask"}),
        (False, {"timeout": 5.0}),
    ],
)
async def test_the_tools_whose_calls_can_be_plain(is_plain: bool, changed: dict[str, Any]) -> None:
    look = replace(tool(effect="read", name="look", description="Look at a number.")(handle), **changed)
    async with desk(look) as harness:
        compiled = harness.session._compiled[look]
        assert (compiled.plain is not None) == is_plain, "stages/plain_calls.py does not know all stages of STAGES"
        assert replace(compiled, phases={}).plain is None, "it is of the phases that it was made of"

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from capset import (
    Agent,
    Capability,
    DefinitionError,
    Hooks,
    Policy,
    Principal,
    Request,
    Result,
    ToolError,
    compose,
    deny,
    evaluate,
    tool,
)
from capset.clock import SystemClock, elapsed_ms
from capset.composition.statics import collect_tool_hashes
from capset.definitions.governance.hooks import PolicyEvaluated
from capset.errors import NotFound
from capset.evaluation.policies import evaluate_policy
from capset.fingerprint.canonical import NotCanonical, digest
from capset.fingerprint.hashes import Ref, runtime_hash, tool_hash
from capset.fingerprint.payloads import tool_payload
from capset.fingerprint.references import compute_runtime_hash, hash_object, resolve_tool_refs, schema_hash_input
from capset.kernel.results import formatted_result
from capset_testing import FakeClock

pytestmark = pytest.mark.spec("F30")
HASHES = {name: digest(name) for name in ("a", "b", "c", "ä", "Z")}


def work() -> int: ...


@pytest.mark.spec("F8")
@given(st.lists(st.sampled_from(sorted(HASHES)), unique=True))
def test_references_are_sorted_by_name_whatever_the_order(names: list[str]) -> None:
    refs = resolve_tool_refs(names, HASHES)
    assert [ref.name for ref in refs] == sorted(names)
    assert all(ref.hash == HASHES[ref.name] for ref in refs)
    assert compute_runtime_hash(names, HASHES) == runtime_hash(refs) == compute_runtime_hash(reversed(names), HASHES)


def test_a_name_without_a_hash_is_not_found() -> None:
    for resolve in (resolve_tool_refs, compute_runtime_hash):
        with pytest.raises(NotFound, match="unknown tool 'd'"):
            resolve(["a", "d"], HASHES)


@pytest.mark.spec("F8", "F13")
async def test_the_hashes_of_a_composition_give_the_runtime_hash_of_a_snapshot() -> None:
    allowed = tool(name="allowed", description="Do.")(work)
    denied = tool(name="denied", description="Do.", policies=[Policy("no", lambda request: False)])(work)
    composition = compose(Agent("a", uses=[Capability("c", tools=[allowed, denied]).with_names(prefix="x_")]))
    hashes = collect_tool_hashes(composition)
    assert hashes == {"x_allowed": tool_hash(allowed), "x_denied": tool_hash(denied)}
    snapshot = await evaluate(composition, principal=Principal("p"))
    assert resolve_tool_refs(snapshot.tools, hashes) == snapshot.tool_refs == (Ref("x_allowed", tool_hash(allowed)),)
    assert compute_runtime_hash(snapshot.tools, hashes) == snapshot.runtime_hash


@pytest.mark.spec("F1", "F2")
def test_an_object_is_hashed_by_its_canonical_form() -> None:
    definition = tool(description="Do.")(work)
    assert hash_object(tool_payload(definition)) == tool_hash(definition)
    assert hash_object({"b": 1, "a": (1, 2)}) == hash_object({"a": [1, 2], "b": 1.0})
    with pytest.raises(NotCanonical):
        hash_object({"a": object()})


class Unknown: ...


class Note(BaseModel):
    zeta: int
    alpha: Literal["b", "a"] = "a"
    beta: str


@pytest.mark.spec("F3")
def test_a_types_schema_is_as_a_tool_has_it() -> None:
    schema = schema_hash_input(Note)
    assert schema["required"] == ["beta", "zeta"]
    assert schema["properties"]["alpha"]["enum"] == ["a", "b"]
    assert "title" not in schema["properties"]["zeta"]

    @tool(description="Do.")
    def take_note(note: Annotated[Note, Field(description="it")]) -> int: ...

    assert dict(schema) == tool_payload(take_note)["schema"]["$defs"]["Note"]
    with pytest.raises(DefinitionError, match="this type"):
        schema_hash_input(Unknown)


async def test_one_policy_is_evaluated_and_hooks_are_called() -> None:
    events: list[PolicyEvaluated] = []
    hooks, request = Hooks(on_policy_evaluated=events.append), Request({}, Principal("p"))
    no = Policy("no", lambda request: asyncio.sleep(0, deny("never")))
    assert await evaluate_policy(no, request) == deny("never")
    assert await evaluate_policy(no, request, hooks=hooks, owner="kit") == deny("never")
    broken = Policy("broken", lambda request: 1 / 0)  # pyright: ignore[reportArgumentType]
    assert (await evaluate_policy(broken, request, hooks=hooks)).kind == "deny"
    assert [(event.policy, event.owner, type(event.error)) for event in events] == [
        (no, "kit", type(None)),
        (broken, "broken", ZeroDivisionError),
    ]


@pytest.mark.parametrize(
    ("data", "error", "expected"),
    [
        (3, None, {"ok": True, "data": 3}),
        (0, None, {"ok": True, "data": 0}),
        (None, None, {"ok": True}),
        (None, ToolError("no such thing"), {"ok": False, "error": "no such thing"}),
    ],
)
def test_a_result_is_shown_as_a_mapping(data: Any, error: ToolError | None, expected: dict[str, Any]) -> None:
    result = Result(error is None, data, error, "record", "r" * 64, "p" * 64)
    assert formatted_result(result) == expected


def test_elapsed_time_is_in_milliseconds_of_the_same_clock() -> None:
    clock = FakeClock()
    since = clock.monotonic_ns()
    clock.advance(1.5)
    assert elapsed_ms(since, clock) == 1500.0
    assert 0 <= elapsed_ms(SystemClock.monotonic_ns()) < 60_000

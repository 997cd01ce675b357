from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, compose, tool
from capset.definitions.blocks import Block
from capset.fingerprint.canonical import digest
from capset.flows import Flow, Generator, Handler, Router, Sequencer, as_tool


def kept(value: int) -> int:
    return value


def doubled(value: int) -> int:
    return 2 * value


def told(value: int) -> str:
    return str(value)


def texts(value: str) -> int:
    return len(value)


class One(BaseModel):
    word: str


class Two(BaseModel):
    words: list[str]


A, B, C = Handler("a", kept), Handler("b", kept), Handler("c", kept)


def choose(value: object) -> Any:
    return "x"


def hash_of(block: Block) -> str:
    return compose(block).static_hash


ROUTES = {"x": A, "y": B}
SAME = [
    (Handler("a", kept), Handler("a", doubled)),
    (Handler("a", kept), Handler("a", kept, description="Said to people.")),
    (Router("r", choose, routes=ROUTES), Router("r", lambda value: "y", routes=ROUTES)),
    (Router("r", choose, routes=ROUTES), Router("r", choose, routes={"y": B, "x": A})),
    (Sequencer("s").parallel(A, B), Sequencer("s").parallel(B, A)),
    (Sequencer("s").when(lambda value: True, A, B), Sequencer("s").when(lambda value: False, A, B)),
    (Sequencer("s").then(A).then(B), Sequencer("s").then(Handler("a", kept)).then(Handler("b", doubled))),
]


@pytest.mark.spec("F7", "F11", "F12")
@pytest.mark.parametrize(("base", "other"), SAME)
def test_what_no_model_and_no_gate_can_see_moves_nothing(base: Block, other: Block) -> None:
    assert hash_of(base) == hash_of(other)


MOVED: list[Any] = [
    # the order of steps
    (Sequencer("s").then(A).then(B), Sequencer("s").then(B).then(A)),
    (Sequencer("s").then(A), Sequencer("s").then(A).then(B)),
    # the kinds of steps
    (Sequencer("s").then(A), Sequencer("s").tap(A)),
    (Sequencer("s").then(A).then(B), Sequencer("s").parallel(A, B)),
    (Sequencer("s").when(choose, A, B), Sequencer("s").when(choose, B, A)),
    (Sequencer("s").when(choose, A), Sequencer("s").then(A)),
    # the kind of block
    (Sequencer("s").then(A), Router("s", choose, routes={"a": A})),
    (Flow("s", A), Sequencer("s").then(A)),
    (Generator("s", output=int), Sequencer("s", output=int)),
    (Agent("s"), Generator("s")),
    # names
    (A, B),
    (Sequencer("s").parallel(A, B), Sequencer("s").parallel(A, other=B)),
    (Router("r", choose, routes={"x": A, "y": B}), Router("r", choose, routes={"x": A, "z": B})),
    (Router("r", choose, routes={"x": A, "y": B}), Router("r", choose, routes={"x": B, "y": A})),
    # what goes in and what comes out
    (Handler("a", kept), Handler("a", told)),
    (Handler("a", kept), Handler("a", texts)),
    (Generator("g", output=One), Generator("g", output=Two)),
    (Generator("g", input=One), Generator("g")),
    # what a model is told, and has
    (Generator("g", system_prompt="Be."), Generator("g", system_prompt="Do.")),
    (Generator("g", instructions=["Be."]), Generator("g")),
    (Generator("g", uses=[Capability("c")]), Generator("g")),
]


@pytest.mark.spec("F7", "F12")
@pytest.mark.parametrize(("base", "other"), MOVED)
def test_what_can_be_seen_moves_the_hash_and_that_of_all_above(base: Block, other: Block) -> None:
    assert hash_of(base) != hash_of(other)
    around = [Sequencer("around").then(block) for block in (base, other) if block.kind != "flow"]
    assert len({hash_of(block) for block in around}) == len(around)


@tool
def ping() -> str:
    """Ping."""
    return "pong"


@pytest.mark.spec("F7", "F12")
@pytest.mark.parametrize("make", [Agent, Generator])
def test_what_stands_behind_a_tool_moves_the_hash_of_whoever_has_it(make: Any) -> None:
    def holding(*tools: Any) -> str:
        inner = Generator("inner", tools=tools, description="Help.")
        return hash_of(make("holder", uses=[Capability("kit", tools=[as_tool(inner)])]))

    assert holding() == holding()
    assert holding() != holding(ping)


@pytest.mark.spec("F2", "F7")
def test_the_payload_of_a_block_can_be_built_by_anybody() -> None:
    shape = {"type": "integer"}

    def handler(name: str) -> dict[str, Any]:
        own = {"kind": "block", "type": "handler", "name": name, "root": None, "systemPrompt": "", "plan": None}
        return {**own, "input": shape, "output": shape, "capabilities": [], "instructions": [], "children": []}

    sequencer = {
        **handler("s"),
        "type": "sequencer",
        "plan": {"steps": [{"then": "b"}, {"when": "a", "otherwise": None}, {"parallel": {"c": "c"}}]},
        "output": {"type": "object", "properties": {"c": shape}, "required": ["c"]},
        "children": [{"name": name, "hash": digest(handler(name))} for name in "abc"],
    }
    assert hash_of(Sequencer("s").then(B).when(choose, A).parallel(C)) == digest(sequencer)

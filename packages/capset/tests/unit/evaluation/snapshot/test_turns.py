"""Recording turns, on every store: all that belongs together, or nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from capset import Agent, Capability
from capset.errors import DefinitionError, InvalidArguments, StoreError
from capset.evaluation.code import code_of
from capset.evaluation.snapshot.capture import capture, compute_link
from capset.evaluation.snapshot.envelope import read_envelope
from capset.evaluation.snapshot.turns import (
    envelope_row,
    link_row,
    op_context,
    payload_rows,
    record_turn,
    registration_row,
)
from capset.stores.base import LinkQuery, Store, make_store
from tests.helpers.evaluation.agents import ANYONE, Counted, everything, make

pytestmark = pytest.mark.spec("F28")
AGENT = Agent("a", uses=[Capability("c", tools=[make("one"), make("two", permissions=["notes:read"])])])


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    new_store = make_store("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/a.db")
    await new_store.open()
    yield new_store
    await new_store.close()


async def test_a_turn_leaves_its_link_its_envelope_and_what_its_hashes_cover(store: Store) -> None:
    captured = await capture(everything(Counted("gate").policy), principal=ANYONE, invocation={"tenant": "t-1"})
    row = await record_turn(store, captured, session="s-1", org="acme", metadata={"invocation": {"tenant": "t-1"}})
    lineage = store.lineage
    assert await lineage.link("acme", row.id) == await lineage.latest_link("acme", "s-1") == row
    assert json.loads(row.metadata) == {"invocation": {"tenant": "t-1"}}
    assert row.tool_refs == captured.link.tool_refs
    assert {ref.name: ref.code for ref in row.tool_refs} == {
        name: code_of(installed.tool).hash for name, installed in captured.tools.items()
    }
    envelope = await lineage.envelope_of("acme", row.id)
    assert envelope is not None
    assert read_envelope(envelope.body) == captured.envelope
    rows = list(payload_rows(captured.envelope, "acme"))
    assert {row.kind for row in rows} == {
        *("tool", "toolkit", "dynamicToolkit", "capability", "agent", "block", "runtime", "prompt", "code"),
    }
    for payload_row in rows:
        assert hashlib.sha256(payload_row.payload.encode()).hexdigest() == payload_row.hash
        assert await lineage.payload("acme", payload_row.hash) == payload_row
        assert "t-1" not in payload_row.payload, "whom a turn served stands in its metadata only"
    assert row.invocation_hash is not None
    assert await lineage.payload("acme", row.invocation_hash) is None
    assert await lineage.payload(None, row.runtime_hash) is None


@pytest.mark.spec("F29")
async def test_a_transition_is_kept_when_the_runtime_hash_moves(store: Store) -> None:
    more = await capture(AGENT, principal=ANYONE)
    less = await capture(AGENT, principal=type(ANYONE)("ada"))
    first = await record_turn(store, more, session="s-1")
    await record_turn(store, less, session="s-2")
    same = await record_turn(store, more.envelope, session="s-1")
    assert await store.lineage.transitions(None, "s-1") == ()
    moved = await record_turn(store, less.link, session="s-1", reason="a permission was taken away")
    (transition,) = await store.lineage.transitions(None, "s-1")
    assert (transition.from_link, transition.to_link, transition.at) == (same.id, moved.id, moved.created_at)
    assert transition.reason == "a permission was taken away"
    assert await store.lineage.envelope_of(None, moved.id) is None, "of a link there is no more"
    page = await store.lineage.links(LinkQuery(None, session="s-1"))
    assert [link.id for link in page.items] == [moved.id, same.id, first.id]


@pytest.mark.parametrize(
    ("text", "forged_text"),
    [
        ('"Do."', '"Do harm."'),
        ('"kind":"tool"', '"kind":"prompt"'),
        ('"system_prompt":""', '"system_prompt":"Obey."'),
    ],
)
async def test_an_envelope_that_was_changed_leaves_nothing(store: Store, text: str, forged_text: str) -> None:
    """Else its payloads would stand in the place of the true ones for good."""
    captured = await capture(AGENT, principal=ANYONE)
    forged = read_envelope(captured.envelope.to_json().replace(text, forged_text))
    with pytest.raises(DefinitionError, match="does not match that hash"):
        await record_turn(store, forged, session="s-1")
    assert (await store.lineage.links(LinkQuery(None))).items == ()
    for payload_row in payload_rows(captured.envelope, None):
        assert await store.lineage.payload(None, payload_row.hash) is None


async def test_what_a_store_refuses_leaves_nothing(store: Store) -> None:
    captured = await capture(AGENT, principal=ANYONE)
    op = op_context()
    row = link_row(captured.link, session="s-1", op=op)
    other = envelope_row(captured.envelope, link="another", op=op)
    with pytest.raises(StoreError):
        await store.lineage.record_turn(row, other, payloads=payload_rows(captured.envelope, None))
    assert await store.lineage.link(None, row.id) is None
    assert await store.lineage.payload(None, row.runtime_hash) is None


async def test_metadata_are_json_data(store: Store) -> None:
    link = await compute_link(AGENT, principal=ANYONE)
    wrong: list[Any] = [{1: "a"}, {"a": object()}, {"a": float("nan")}, {"a": "\ud800"}, {"a": {b"x": 1}}, [1], "text"]
    for metadata in (*wrong, {"a": {1, 2}}):
        with pytest.raises(InvalidArguments, match="metadata must be"):
            await record_turn(store, link, metadata=metadata)
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        await record_turn(store, link, metadata=deep)
    assert (await store.lineage.links(LinkQuery(None))).items == ()
    mapping = MappingProxyType({"a": MappingProxyType({"ü": [2**60, None, 1.5]})})
    row = await record_turn(store, link, metadata=mapping)
    assert json.loads(row.metadata) == {"a": {"ü": [2**60, None, 1.5]}}
    assert await store.lineage.link(None, row.id) == row


@pytest.mark.spec("F29", "F30")
async def test_rows_of_one_operation_have_its_time_and_its_org(store: Store) -> None:
    captured = await capture(AGENT, principal=ANYONE, agent_id="a-1")
    op = op_context("acme")
    registration = registration_row(AGENT, agent_id="a-1", op=op)
    link = link_row(captured.link, op=op)
    envelope = envelope_row(captured.envelope, link=link.id, op=op)
    assert {(row.org, row.created_at) for row in (registration, link, envelope)} == {("acme", op.now)}
    assert len({registration.id, link.id, envelope.id}) == 3
    assert registration.static_hash == link.static_hash == captured.link.static_hash
    assert registration_row(AGENT, op=op).agent_id == "a"
    assert await store.lineage.register(registration) == registration
    assert await store.lineage.latest_registration("acme", "a-1") == registration
    await store.lineage.record_turn(link, envelope)
    assert await store.lineage.envelope("acme", envelope.id) == envelope

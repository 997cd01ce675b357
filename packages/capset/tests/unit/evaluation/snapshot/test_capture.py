"""What is kept of one evaluation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Agent, compose, deny, evaluate
from capset.definitions.tools.toolkits import DynamicToolkit
from capset.errors import DefinitionError, InvalidArguments, ToolkitFailed
from capset.evaluation.snapshot.capture import capture, capture_runtime, compute_link, envelope_of, json_safe, link_of
from capset.evaluation.snapshot.envelope import PolicyPart, PolicyResult, WireContext, WirePrincipal, read_envelope
from capset.evaluation.snapshot.snapshot import covered_payloads
from capset.fingerprint.canonical import canonical
from capset.fingerprint.links import CapabilityLink, create_link
from tests.helpers.evaluation.agents import ANYONE, NOBODY, Counted, everything, make


def sha256(payload: Any) -> str:
    return hashlib.sha256(canonical(payload)).hexdigest()


@pytest.mark.spec("F26", "F27")
async def test_one_pass_gives_the_envelope_the_link_and_the_live_tools() -> None:
    gate, bound = Counted("gate"), Counted("held", binding="snapshot")
    agent = everything(gate.policy, bound.policy)
    for count, work in enumerate((capture, capture_runtime, compute_link), start=1):
        await work(agent, principal=ANYONE)
        assert (gate.asked, bound.asked) == (count, count)
    captured = await capture(agent, principal=ANYONE, agent_id="agent-7")
    assert captured.link is captured.envelope.link
    assert set(captured.tools) == {ref.name for ref in captured.link.tool_refs}
    assert "n_seek" not in captured.tools
    assert captured.tools["seek"].tool.name == "find"
    assert (captured.link.agent_id, captured.link.agent_name) == ("agent-7", "librarian")
    assert (await capture_runtime(agent, principal=ANYONE)).envelope.static is None
    assert await compute_link(agent, principal=ANYONE, agent_id="agent-7") == captured.link
    assert captured.instructions == captured.snapshot.instructions


@pytest.mark.spec("F2", "F26", "F27")
@pytest.mark.parametrize("env", [{}, {"tier": "pro"}])
async def test_every_hash_can_be_recomputed_from_what_the_envelope_says(env: Mapping[str, Any]) -> None:
    text = (await capture(everything(Counted("gate").policy), principal=ANYONE, env=env)).envelope.to_json()
    envelope = json.loads(text)
    runtime, static, link = envelope["runtime"], envelope["static"], envelope["runtime"]["link"]
    tools = [{"name": entry["name"], "hash": sha256(entry["payload"])} for entry in runtime["tools"]]
    assert sha256({"kind": "runtime", "tools": tools}) == link["runtime_hash"]
    prompt = {"kind": "prompt", "systemPrompt": runtime["system_prompt"], "instructions": runtime["instructions"]}
    assert sha256(prompt) == link["prompt_hash"]
    assert sha256(static["payload"]) == static["hash"] == link["static_hash"]
    parts = {sha256(entry["payload"]): entry["payload"] for entry in static["parts"]}
    assert list(parts) == [entry["hash"] for entry in static["parts"]]
    reached: set[str] = set()
    pending = [static["payload"]]
    while pending:
        payload = pending.pop()
        keys = ("capabilities", "children", "uses", "members", "tools")
        named = {entry["hash"] for key in keys for entry in payload.get(key, ())}
        named |= {payload["root"]} if payload.get("root") else set()
        assert named <= parts.keys(), f"all that the {payload['kind']} names is there"
        pending += [parts[part_hash] for part_hash in named - reached]
        reached |= named
    assert reached == parts.keys(), "and nothing else"
    kinds = {payload["kind"] for payload in parts.values()}
    assert kinds == {"tool", "toolkit", "dynamicToolkit", "capability", "block"}
    assert f"made_for_{env.get('tier', 'all')}" in text


@pytest.mark.spec("F2")
async def test_what_a_snapshot_covers_hashes_to_its_names() -> None:
    snapshot = (await capture(everything(), principal=NOBODY)).snapshot
    payloads = covered_payloads(snapshot)
    assert all(sha256(payload) == payload_hash for payload_hash, payload in payloads.items())
    assert {snapshot.static_hash, snapshot.runtime_hash, snapshot.prompt_hash} <= payloads.keys()
    assert "seek" not in snapshot.tools


@pytest.mark.spec("F27")
async def test_an_envelope_goes_through_json_as_it_is() -> None:
    labels: Any = {"namespace": "ns", "invocation": {"tenant": "t-1"}, "policy_mode": "hint"}
    captured = await capture(
        everything(Counted("gate", deny("no")).policy),
        principal=ANYONE,
        env={"a": (1, [2.5, None]), "big": 2**60, "odd": object()},
        session_context={"thread": {"turn": 3}},
        **labels,
    )
    envelope = captured.envelope
    text = envelope.to_json()
    assert read_envelope(text).to_json() == text
    assert read_envelope(text.encode()) == envelope
    assert (envelope.schema_version, envelope.profile, envelope.link.profile) == ("1", "jcs-1", "jcs-1")
    assert envelope.context == {"thread": {"turn": 3}}
    assert "t-1" not in text, "of an invocation there is the hash"
    assert envelope.link.invocation_hash
    assert envelope.runtime.toolkit_context == WireContext(
        principal=WirePrincipal(id="ada", kind="user", permissions=("notes:read", "notes:write")),
        namespace="ns",
        agent_name="librarian",
        env={"a": [1, [2.5, None]], "big": 2**60},
        dropped=("odd",),
    )
    assert envelope.policy == PolicyPart(mode="hint", results=(PolicyResult(id="gate", kind="deny", reason="no"),))


@pytest.mark.spec("F27")
async def test_what_an_envelope_holds_is_its_own() -> None:
    env = {"list": [1]}
    envelope = (await capture(everything(), principal=ANYONE, env=env)).envelope
    env["list"].append(2)
    assert envelope.runtime.toolkit_context.env == {"list": [1]}
    schema: Any = envelope.runtime.tools[0].payload["schema"]
    schema["title"] = "changed"
    assert (await capture(everything(), principal=ANYONE)).link.runtime_hash == envelope.link.runtime_hash


@pytest.mark.spec("F27")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": "2"}, "schema_version: Input should be '1'"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
        ({"runtime": None}, "runtime: Input should be"),
        ({"policy": {"results": [{"id": "x", "kind": "perhaps"}]}}, "policy.results.0.kind"),
    ],
)
async def test_text_that_is_no_envelope_is_refused_with_the_place(change: dict[str, Any], message: str) -> None:
    data = json.loads((await capture(everything(), principal=ANYONE)).envelope.to_json())
    with pytest.raises(DefinitionError, match=message):
        read_envelope(json.dumps(data | change))
    for text in ("", "{", "[]", b"\xff"):
        with pytest.raises(DefinitionError, match="not a snapshot envelope"):
            read_envelope(text)


@pytest.mark.spec("F26")
async def test_links_by_hand_and_by_evaluation_agree() -> None:
    captured = await capture(everything(), principal=ANYONE)
    link = captured.link
    parts: Any = link.model_dump(include={"agent_id", "agent_name", "static_hash", "prompt_hash"})
    assert create_link(**parts, tool_refs=reversed(link.tool_refs)) == link == link_of(captured.snapshot)
    assert CapabilityLink.model_validate_json(link.model_dump_json()) == link
    with pytest.raises(ValueError, match="static_hash"):
        create_link(**{**parts, "static_hash": "x"}, tool_refs=())


@pytest.mark.spec("F27")
async def test_an_envelope_of_a_snapshot_that_is_there_asks_nobody() -> None:
    gate = Counted("gate")
    snapshot = await evaluate(compose(everything(gate.policy)), principal=ANYONE)
    envelope = envelope_of(snapshot, include_static=False)
    assert (gate.asked, envelope.static, envelope.link) == (1, None, link_of(snapshot))


@pytest.mark.spec("F27")
@pytest.mark.parametrize("context", [{"pool": object()}, {"password": "x"}, {"deep": {"api_key": "x"}}])
async def test_a_session_context_is_json_data_without_secrets(context: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments, match=r"is not$") as refused:
        await capture(Agent("a"), principal=ANYONE, session_context=context)
    assert "'x'" not in str(refused.value)


async def test_two_policies_of_one_id_do_not_meet_in_an_envelope() -> None:
    """Results are kept by id, so that one would answer for the other."""
    strict = make("strict", Counted("admin", deny("no")).policy)
    lax = DynamicToolkit("lax", lambda context: [make("lax", Counted("admin").policy)])
    with pytest.raises(ToolkitFailed, match="two different policies have the id 'admin'"):
        await capture(Agent("a", tools=[strict, lax]), principal=ANYONE)


@pytest.mark.spec("F27")
def test_what_is_not_json_is_dropped_and_listed() -> None:
    circle: dict[str, Any] = {"kept": 1}
    circle["itself"] = [circle, circle]
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    values: dict[Any, Any] = {
        "pool": object(),
        "db": MappingProxyType({"pool": object(), "name": "main"}),
        "list": [1, object(), {"password": "x"}],
        "nan": float("nan"),
        "huge": 10**5000,
        "\ud800": 1,
        "text": "\ud800",
        "api_key": "x",
        "token": None,
        "circle": circle,
        "deep": deep,
        1: 2,
    }
    safe, dropped = json_safe(values)
    assert json.loads(json.dumps(safe)) == safe
    del safe["deep"]
    assert safe == {"db": {"name": "main"}, "list": [1, {}], "circle": {"kept": 1, "itself": []}, "token": None}
    assert [path for path in dropped if not path.startswith("deep")] == [
        *("pool", "db.pool", "list[1]", "list[2].password", "nan", "huge", "\\ud800", "text", "api_key"),
        *("circle.itself[0]", "circle.itself[1]", "1"),
    ]


TEXTS, KEYS = st.text(st.characters(codec=None)), st.text(max_size=3) | st.integers(0, 2)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.spec("F27")
@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), ANY, max_size=4))
def test_what_is_kept_is_canonical_and_whatever_is_missing_is_listed(values: dict[str, Any]) -> None:
    safe, dropped = json_safe(values)
    canonical(safe)
    "".join(dropped).encode()
    assert json_safe(safe) == (safe, ())
    if not dropped:
        assert safe == values

"""The shapes that leave the process."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from capset import Agent, Capability, Kernel, Preset, Principal, Resource, ToolError, compose, evaluate, policy, tool
from capset.definitions.tools.toolkits import DynamicToolkit, Toolkit
from capset.errors import CapsetError, DeadlineExceeded, Field, InternalError, InvalidArguments, PermissionDenied
from capset.ext import Documents
from capset.fingerprint.chain import Verification
from capset.fingerprint.hashes import toolkit_hash
from capset.kernel.results import Result
from capset.stores.base import AuditQuery
from capset.wire.agents import AgentShape
from capset.wire.audit import audit_page_shape, verification_shape
from capset.wire.calls import CallShape, call_data
from capset.wire.capabilities import capability_detail, capability_shape, tool_shape
from capset.wire.errors import ErrorShape, error_shape
from capset.wire.shapes import Shape
from capset.wire.snapshots import SnapshotShape, snapshot_shape


@policy
def never(request: object) -> bool:
    return False


@tool(effect="read", permissions={"notes:read"})
async def read(limit: int | None = None) -> str | None:
    """Read."""
    return str(limit)


@tool(effect="destructive", policies=[never])
async def burn(path: str) -> dict[str, int | None]:
    """Burn."""
    return {path: None}


NOTES = Capability("notes", description="Notes.", icon="note", version="1.2", instructions="Keep.", tools=[read, burn])
ANN = Principal("ann", permissions={"notes:read"})
IDS = {"record": "r", "session": "s", "runtime_hash": "0" * 64, "prompt_hash": "1" * 64}


def returns(shape: Shape) -> dict[str, Any]:
    """Return a shape's JSON, after making the same shape of it again."""
    text = json.dumps(shape.plain(), allow_nan=False)
    assert type(shape).model_validate_json(text) == shape
    assert type(shape).model_validate(shape.plain()).plain() == shape.plain()
    return json.loads(text)


def called(data: object = None, error: CapsetError | None = None) -> CallShape:
    result = Result(error is None, data, error, "r", "0" * 64, "1" * 64, isinstance(error, PermissionDenied))
    return CallShape.model_validate(call_data(result, data, "s"))


@pytest.mark.parametrize("data", [5, "x", [], {}, {"a": None}, [None], False, 0, "", None])
def test_a_call_that_succeeded_has_data_whatever_it_is(data: object) -> None:
    assert returns(called(data)) == {"success": True, "data": data, **IDS}


@pytest.mark.parametrize("error", [ToolError("no"), PermissionDenied("Permission denied: no"), InternalError("…")])
def test_a_call_that_failed_has_an_error_and_no_data(error: CapsetError) -> None:
    shape = returns(called(error=error))
    assert set(shape) == {"success", "error", "refused", *IDS}
    assert (shape["success"], shape["refused"]) == (False, isinstance(error, PermissionDenied))
    assert shape["error"]["code"] == error.code


@pytest.mark.spec("K2", "G24")
def test_an_error_says_what_a_client_needs_and_nothing_else() -> None:
    fields = [Field("a.0", "required, but missing"), Field("pth", "no such parameter", "path")]
    error = InvalidArguments("Invalid arguments", fields=fields, correlation="c", hint="for people only")
    error.__cause__ = RuntimeError("SELECT secret FROM /etc/passwd")
    expected = {"code": "invalid_arguments", "status": 422, "message": "Invalid arguments", "retryable": False}
    missing = {"path": "a.0", "expected": "required, but missing"}
    unknown = {"path": "pth", "expected": "no such parameter", "did_you_mean": "path"}
    assert returns(error_shape(error)) == {**expected, "fields": [missing, unknown], "correlation": "c"}
    late = {"code": "deadline_exceeded", "status": 504, "message": "late", "retryable": True}
    assert returns(error_shape(DeadlineExceeded("late"))) == late
    assert returns(error_shape(ToolError("busy", code="busy", status=423)))["status"] == 423


def test_a_shape_has_exactly_its_own_fields_and_does_not_change() -> None:
    shape = called(1)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(shape, "success", False)  # noqa: B010 - the type checker would refuse an assignment
    with pytest.raises(ValidationError, match="extra_forbidden"):
        CallShape.model_validate({**shape.plain(), "extra": 1})
    with pytest.raises(ValidationError, match="missing"):
        ErrorShape.model_validate({"code": "x"})


def test_a_capability_is_shown_with_what_it_brings() -> None:
    summary = returns(capability_shape(NOTES))
    about = {"id": "notes", "name": "Notes", "description": "Notes.", "status": "available", "icon": "note"}
    assert summary == about
    detail = returns(capability_detail(NOTES))
    assert detail.items() >= {**summary, "version": "1.2", "instructions": ["Keep."], "toolkits": []}.items()
    assert [tool_data["name"] for tool_data in detail["tools"]] == ["read", "burn"]


def test_a_capability_is_shown_with_its_data_and_what_it_asks_for() -> None:
    class Count(BaseModel):
        count: int = 0

    resource = Resource("kept", int, scope="user", default=0)
    texts = Preset(resources=[Documents("texts", "session")])
    capability = Capability(
        "c", resources=[resource], state={"session": Count}, presets={"texts": texts}, secrets=["KEY"], expose=["count"]
    )
    detail = returns(capability_detail(capability))
    assert detail["data"] == ["user.kept", "session.count", "session.texts"]
    assert (detail["secrets"], detail["expose"]) == (["KEY"], ["count"])


@pytest.mark.spec("P6")
def test_a_tool_is_shown_with_its_schemas_as_they_are_hashed_and_its_gates() -> None:
    shape = returns(tool_shape(read))
    assert (shape["schema"], shape["output"]) == (read.arguments.json_schema, read.output.json_schema)
    assert shape["schema"]["properties"]["limit"]["default"] is None, "null in a schema is a value"
    gates = {"effect": "read", "permissions": ["notes:read"], "policies": []}
    assert shape.items() >= {**gates, "instructions": [], "examples": [], "idempotent": False}.items()
    assert "version" not in shape
    assert returns(tool_shape(burn))["policies"] == ["never"]


@pytest.mark.spec("P6")
def test_a_tool_is_shown_with_what_a_model_is_told_of_it_and_how_it_may_be_called() -> None:
    examples = [{"weight": None}, {"weight": 3}]

    @tool(effect="write", instructions=["Weigh it first."], examples=examples, version="7", idempotent=True)
    async def lift(weight: int | None) -> str:
        """Lift."""
        return "up"

    shape = returns(tool_shape(lift))
    assert (shape["instructions"], shape["version"], shape["idempotent"]) == (["Weigh it first."], "7", True)
    assert shape["examples"] == examples, "null in an example is a value"


@pytest.mark.spec("P6")
def test_a_capability_is_shown_with_its_toolkits_and_those_of_its_presets() -> None:
    inner, feeds = Toolkit("inner", [burn]), DynamicToolkit("feeds", lambda context: [], policies=[never])
    outer = Toolkit("outer", [read, inner, feeds], instructions=["Look here."])
    more = Preset(tools=[Toolkit("more", [])])
    detail = returns(capability_detail(Capability("c", tools=[outer], presets={"more": more})))
    fields = ("name", "members", "is_dynamic", "instructions", "policies")
    assert [tuple(toolkit[field] for field in fields) for toolkit in detail["toolkits"]] == [
        ("outer", ["read", "inner", "feeds"], False, ["Look here."], []),
        ("inner", ["burn"], False, [], []),
        ("feeds", [], True, [], ["never"]),
        ("more", [], False, [], []),
    ]
    assert detail["toolkits"][0]["hash"] == toolkit_hash(outer)
    assert [tool_data["name"] for tool_data in detail["tools"]] == ["read", "burn"]


async def test_a_snapshot_says_why_a_tool_is_not_in_play() -> None:
    composition = compose(Agent("scribe", system_prompt="Keep.", uses=[NOTES]))
    shape = returns(snapshot_shape(await evaluate(composition, principal=Principal("ann"))))
    assert set(shape) == SnapshotShape.model_fields.keys() - {"namespace", "agent_id", "invocation_hash"}
    assert {tool_data["name"]: (tool_data["in_play"], tool_data["reason"]) for tool_data in shape["tools"]} == {
        "burn": (False, "policy 'never' says no"),
        "read": (False, "ann lacks the permission notes:read"),
    }
    allowed = snapshot_shape(await evaluate(composition, principal=ANN))
    assert {tool_data.name: tool_data.in_play for tool_data in allowed.tools} == {"burn": False, "read": True}


async def test_records_keep_every_column_and_show_json_as_json() -> None:
    async with Kernel(store="memory://") as kernel:
        async with kernel.open(Agent("scribe", uses=[NOTES]), principal=ANN) as session:
            await session.try_call(read, limit=3)
            await session.try_call(burn, "/x")
        page = await kernel.audit.query(AuditQuery(limit=1))
        shape = returns(await audit_page_shape(kernel.audit, AuditQuery(limit=1)))
        all_records = returns(await audit_page_shape(kernel.audit, AuditQuery()))
    assert shape["next"] == page.next == 2
    (denied,) = shape["items"]
    assert (denied["arguments"], denied["policies"], denied["decision"]) == ({"path": "/x"}, ["never"], "deny")
    assert denied["org"] is None, "a column without a value is null, and there"
    assert "next" not in all_records


def test_a_verification_says_where_a_chain_is_broken() -> None:
    assert returns(verification_shape(Verification(7))) == {"ok": True, "checked": 7}
    broken = returns(verification_shape(Verification(2, "record 3 was changed", 3)))
    assert broken == {"ok": False, "checked": 2, "problem": "record 3 was changed", "seq": 3}


def test_an_agent_takes_plain_ids_and_gives_them_back() -> None:
    shape = AgentShape(name="a", capabilities=["noop"])
    assert returns(shape)["capabilities"] == ["noop"]
    mixed = AgentShape.model_validate({"name": "a", "capabilities": ["noop", {"id": "memory"}]})
    assert [entry.id for entry in mixed.entries()] == ["noop", "memory"]


@pytest.mark.parametrize(
    ("entry", "places"),
    [
        ({"id": "noop", "policy": 1}, {("policy", "extra_forbidden")}),
        ({"name": "noop"}, {("id", "missing"), ("name", "extra_forbidden")}),
        (5, {("an id", "string_type")}),
    ],
)
def test_an_entry_that_does_not_fit_is_told_as_what_it_is(entry: object, places: set[tuple[str, str]]) -> None:
    with pytest.raises(ValidationError) as refused:
        AgentShape.model_validate({"name": "a", "capabilities": [entry]})
    assert {(str(error["loc"][-1]), error["type"]) for error in refused.value.errors()} == places

"""Arguments: strict, as JSON from the wire and as Python in process; every field named; nothing breaks the writer."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from capset import Tool, tool
from capset.errors import Field, InvalidArguments
from tests.helpers.kernel.support import Desk, ask, desk

reads = tool(effect="read", description="For a test.")


class Point(BaseModel):
    x: int
    y: int = 0


@tool(effect="read")
async def take(
    count: int = 0,
    share: float = 0.5,
    flag: bool = False,
    text: str = "",
    when: datetime | None = None,
    day: date | None = None,
    pair: tuple[int, str] | None = None,
    many: set[int] | None = None,
    mode: Literal["fast", "slow"] = "fast",
    point: Point | None = None,
) -> str:
    """Take some of everything."""
    return shown({name: value for name, value in locals().items() if value not in (0, 0.5, False, "", None, "fast")})


def shown(values: dict[str, Any]) -> str:
    return repr({name: value.isoformat() if isinstance(value, date) else value for name, value in values.items()})


@reads
async def need(first: int, second: int, third: int = 3) -> list[int]:
    return [first, second, third]


async def keep_anything(value: object) -> bool:
    """Keep anything."""
    return True


# Declared, since for a type checker an object could be a context.
keep: Tool[..., bool] = tool(name="keep", effect="read")(keep_anything)


async def refused(opened: Desk, tool: Tool[..., Any], *args: Any, **kwargs: Any) -> dict[str, Field]:
    with pytest.raises(InvalidArguments) as raised:
        await opened.session.call(tool, *args, **kwargs)
    assert raised.value.status == 422
    return {field.path: field for field in raised.value.fields}


@pytest.mark.spec("G11", "T3")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("count", value) for value in (True, 1.0, "5", None)],
        *[("share", value) for value in ("0.5", True)],
        *[("flag", value) for value in (1, "true")],
        *(("text", 5), ("when", 1_700_000_000), ("day", "2026-01-01T00:00:01Z"), ("mode", "medium")),
        *[("point", value) for value in ({"x": "1"}, [1, 2], "x")],
        *[("pair", value) for value in ([1, 2], [1])],
    ],
    ids=str,
)
async def test_what_is_of_another_type_is_refused_from_the_wire_and_in_process(name: str, value: Any) -> None:
    async with desk(take) as opened:
        (error,) = await ask(opened.session, "take", {name: value})
        assert (error.data["code"], error.data["status"]) == ("invalid_arguments", 422)
        assert [field["path"].split(".")[0] for field in error.data["fields"]] == [name]
        assert {path.split(".")[0] for path in await refused(opened, take, **{name: value})} == {name}


@pytest.mark.spec("G11")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"share": 1}, {"share": 1.0}),
        ({"when": "2026-01-01T00:00:00Z"}, {"when": datetime(2026, 1, 1, tzinfo=UTC)}),
        ({"day": "2026-01-01"}, {"day": date(2026, 1, 1)}),
        ({"pair": [1, "a"]}, {"pair": (1, "a")}),
        ({"many": [1, 1]}, {"many": {1}}),
        ({"point": {"x": 1}}, {"point": Point(x=1)}),
        ({"count": 2**70}, {"count": 2**70}),
    ],
    ids=str,
)
async def test_json_forms_and_python_values_are_taken(arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    async with desk(take) as opened:
        (reply,) = await ask(opened.session, "take", arguments)
        assert reply.data == await opened.session.call(take, **expected) == shown(expected)


@pytest.mark.spec("G11")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("when", "2026-01-01T00:00:00Z"), ("day", "2026-01-01"), ("pair", [1, "a"]), ("many", [1])),
        *(("share", math.nan), ("share", math.inf), ("text", b"x")),
    ],
    ids=ascii,
)
async def test_what_comes_in_process_is_strict_as_python(name: str, value: Any) -> None:
    async with desk(take) as opened:
        assert [path.split(".")[0] for path in await refused(opened, take, **{name: value})] == [name]


@pytest.mark.spec("G12")
async def test_every_field_that_does_not_fit_is_listed() -> None:
    async with desk(take, need) as opened:
        fields = await refused(opened, need, first="1", thrid=4)
        assert set(fields) == {"first", "second", "thrid"}
        assert fields["second"].expected == "required, but missing"
        assert fields["thrid"] == Field("thrid", "no such parameter", "third")
        (error,) = await ask(opened.session, "need", {"first": "1", "thrid": 4})
        meant = {field["path"]: field.get("did_you_mean") for field in error.data["fields"]}
        assert meant == {"first": None, "second": None, "thrid": "third"}
        assert all(name in error.data["message"] for name in meant)


@pytest.mark.spec("G12")
async def test_fields_are_refused_at_every_depth_and_values_are_not_echoed() -> None:
    async with desk(take) as opened:
        point = {"x": "hunter2", "z": "hunter2"}
        (error,) = await ask(opened.session, "take", {"count": "hunter2", "mode": "hunter2", "point": point})
        assert {field["path"] for field in error.data["fields"]} == {"count", "mode", "point.x", "point.z"}
        assert "hunter2" not in json.dumps(error.data)


@pytest.mark.spec("G11")
async def test_arguments_may_stand_by_position_and_too_many_and_one_given_twice_are_listed() -> None:
    async with desk(need) as opened:
        assert await opened.session.call(need, 1, 2) == [1, 2, 3]
        assert await opened.session.call(need, 1, second=2, third=4) == [1, 2, 4]
        assert set(await refused(opened, need, 1, 2, first=5)) == {"first (given twice)"}
        fields = await refused(opened, need, 1, 2, 3, 4, 5, second=5)
        assert set(fields) == {"(positional 4)", "(positional 5)", "second (given twice)"}
        assert [record.outcome for record in await opened.records()] == ["succeeded"] * 2 + ["invalid"] * 2


@pytest.mark.spec("G11")
async def test_defaults_are_filled_into_a_copy_for_every_call() -> None:
    @reads
    async def collect(item: int, into: list[int] = []) -> list[int]:  # noqa: B006  # that is what is tried
        into.append(item)
        return into

    async with desk(collect) as opened:
        assert [await opened.session.call(collect, item) for item in (1, 2)] == [[1], [2]]
        numbers = [0]
        assert await opened.session.call(collect, 1, numbers) == [0, 1]
        assert numbers == [0]


@pytest.mark.spec("G11")
async def test_parameters_may_have_any_name() -> None:
    @reads
    async def odd(self: int, tool: int, call: int, args: int, kwargs: int, copy: int, json: int, cls: int) -> int:
        return self + tool + call + args + kwargs + copy + json + cls

    names = dict.fromkeys(odd.parameters, 1)
    async with desk(odd) as opened:
        assert await opened.session.call(odd, **names) == 8
        assert (await ask(opened.session, "odd", names))[0].data == 8


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


CYCLE: list[object] = []
CYCLE.append(CYCLE)
AWKWARD: dict[str, object] = {
    "a lone surrogate inside": ["\udfff"],
    "a lone surrogate as a key": {"\ud800": 1},
    "NaN": math.nan,
    "an infinity": -math.inf,
    "4,000 digits": 10**4000,
    "5,000 digits": 10**5000,
    "150 levels": nested(150),
    "300 levels": nested(300),
    "5,000 levels": nested(5_000),
    "a cycle": CYCLE,
    "3 MB of text": "x" * 3_000_000,
    "many numbers": list(range(100_000)),
    "bytes": b"\xff\xfe",
    "an object": object(),
    "keys that are no text": {1: 2, None: 3},
    "a key that is a tuple": {(1, 2): 3},
    "NUL": "\0",
    "a class": Point,
}


@pytest.mark.spec("G19")
@pytest.mark.parametrize("case", AWKWARD)
async def test_no_value_in_process_breaks_the_record(case: str, store: str) -> None:
    async with desk(keep, store=store) as opened:
        result = await opened.session.try_call(keep, AWKWARD[case])
        record = await opened.record()
        assert record.id == result.record
        assert record.outcome == ("succeeded" if result.success else "invalid")
        assert result.error is None or result.error.status == 422
        assert len(record.arguments) <= 16_384
        json.loads(record.arguments)
        assert (await opened.kernel.audit.verify()).ok


@pytest.mark.spec("G19")
@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"null", b"[]", b"1", b'"text"', b"{", b'{"value": }', b"\xef\xbb\xbf{}", b"\0"),
        b'{"value": -1e999, "other": 1}',
        b'{"value": ' + b"9" * 5_000 + b"}",
        b'{"value": "\\ud800"}',
        b'{"value": "\xff"}',
        b'{"value": ' + b"[" * 190 + b"]" * 190 + b"}",
        b'{"value": ' + b'{"a":' * 190 + b"1" + b"}" * 190 + b"}",
        b'{"wrong": ' + b'{"a":' * 190 + b"1" + b"}" * 190 + b"}",
        b'{"value": ' + b"[" * 100_000 + b"}",
        b'{"value": "' + b"x" * 1_000_000 + b'"}',
        b'{"value": "' + b"x" * 3_000_000 + b'"}',
        b'{"value": 1, "value": 2}',
    ],
    ids=lambda text: ascii(text)[:24],
)
async def test_no_text_from_the_wire_breaks_the_record(text: bytes, store: str) -> None:
    async with desk(keep, need, store=store) as opened:
        for name in ("keep", "need"):
            (last,) = await ask(opened.session, name, text)
            record = await opened.record(tool=name)
            assert record.outcome == ("succeeded" if last.kind == "reply" else "invalid")
            assert last.kind == "reply" or last.data["status"] == (413 if len(text) > 2**20 else 422)
            json.loads(record.arguments)
        assert (await opened.kernel.audit.verify()).ok


@pytest.mark.spec("G11")
@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "NaN", "1e999", '[{"a": 1e999}]'])
async def test_free_form_json_has_no_infinities_either(text: str) -> None:
    async with desk(keep) as opened:
        (last,) = await ask(opened.session, "keep", f'{{"value": {text}}}'.encode())
        assert (last.kind, last.data["status"]) == ("error", 422)
        assert (await opened.record(tool="keep")).outcome == "invalid"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.nightly
@pytest.mark.spec("G19")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=st.lists(st.dictionaries(st.sampled_from(["value", "count", "text"]) | st.text(), JSON), max_size=5))
async def test_whatever_is_sent_each_attempt_has_its_record(arguments: list[dict[str, Any]]) -> None:
    async with desk(keep, take) as opened:
        for call_arguments in arguments:
            text = json.dumps(call_arguments).encode()
            for name in ("keep", "take"):
                (last,) = await ask(opened.session, name, text)
                assert last.kind == "reply" or last.data["status"] == 422
            tools: tuple[Tool[..., Any], ...] = (keep, take)
            for error in [(await opened.session.try_call(called, **call_arguments)).error for called in tools]:
                assert error is None or error.status == 422
        assert len(await opened.records()) == 4 * len(arguments)
        assert (await opened.kernel.audit.verify()).ok


@tool
async def pay(to: str, amount: int, proof: bytes = b"") -> int:
    """Pay."""
    return amount


@pytest.mark.spec("G19", "G20")
@pytest.mark.parametrize(
    ("odd", "expected_prefix"),
    [
        ({"to": "\ud800"}, "\\ud800"),
        ({"to": "a\udfffb"}, "a\\udfffb"),
        ({"amount": 10**5000}, hex(10**5000)[:2000]),
        ({"proof": b"\xff"}, "bytes ff"),
    ],
    ids=range(4),
)
async def test_no_argument_hides_the_others_from_the_record(odd: dict[str, Any], expected_prefix: str) -> None:
    async with desk(pay) as opened:
        arguments: dict[str, Any] = {"to": "mallory", "amount": 5, "proof": b"ok"} | odd
        await opened.session.try_call(pay, **arguments)
        recorded = json.loads((await opened.record()).arguments)
        (name,) = odd
        assert recorded[name].startswith(expected_prefix)
        assert all(recorded[key] == arguments[key] for key in ("to", "amount") if key != name)
        assert (await opened.kernel.audit.verify()).ok


async def test_what_a_refused_caller_changes_afterwards_is_not_on_record(store: str) -> None:
    async with desk(need, store=store) as opened:
        numbers = [1]
        with pytest.raises(InvalidArguments):
            await opened.session.call(need, numbers, 2)  # pyright: ignore[reportArgumentType]
        numbers.append(2)
        assert json.loads((await opened.record()).arguments) == {"first": [1], "second": 2}

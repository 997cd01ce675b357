"""The shape of a record: the columns of ``Record``, typed and described."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Capability, Kernel, Principal, tool
from capset.definitions.calls.records import COLUMNS, NULLABLE, NUMBERS, Record
from capset.stores.sql.schema.tables import records
from capset.wire.audit import record_data, record_shape

JSON = ("arguments", "policies")
"""The columns that a record has as text, and its data as JSON."""

REQUIRED = (
    "seq id phase time correlation principal principal_kind session agent tool arguments arguments_digest policies"
    " static_hash runtime_hash prompt_hash profile writer previous hash"
)


def schema_of(name: str) -> dict[str, Any]:
    return record_shape().model_json_schema()["properties"][name]


def test_the_columns_are_the_fields_of_a_record_and_later_ones_may_be_null() -> None:
    assert tuple(Record.__slots__) == COLUMNS
    assert {"seq", "duration_us", "attempts", "repeats"} == NUMBERS
    assert {*COLUMNS} - {*NULLABLE} == {*REQUIRED.split()}, "null is not hashed, so that old chains stay valid"


@pytest.mark.spec("G19")
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_has_its_type_and_its_description_wherever_it_is(name: str) -> None:
    described = schema_of(name)
    assert described["description"].endswith(".")
    types = {option.get("type") for option in described.get("anyOf", [described])}
    if name not in JSON:
        kind = "integer" if name in NUMBERS else "string"
        assert types == ({kind, "null"} if name in NULLABLE else {kind})
    column = records.c[name]
    assert (column.nullable, column.type.python_type) == (name in NULLABLE, int if name in NUMBERS else str)


def test_the_shape_has_every_column_always_and_no_other() -> None:
    schema = record_shape().model_json_schema()
    assert list(schema["properties"]) == schema["required"] == list(COLUMNS) == list(records.c.keys())
    assert schema_of("phase")["enum"] == ["intent", "outcome", "act"]
    assert schema_of("policies")["items"] == {"type": "string"}


@pytest.mark.spec("G19")
async def test_the_records_of_acts_and_of_every_kind_of_call_have_that_shape() -> None:
    @tool(effect="write", permissions={"notes:write"})
    def write(text: str) -> str:
        """Write a note."""
        return text

    agent = Agent("scribe", uses=[Capability("notes", tools=[write])])
    async with Kernel(store="memory://") as kernel:
        for principal in (Principal("ann", permissions={"notes:write"}), Principal("bob"), Principal.anonymous()):
            async with kernel.open(agent, principal=principal) as session:
                await session.try_call(write, "x")
                await session.try_call(write, 3)  # pyright: ignore[reportArgumentType]
        await kernel.audit.commit(kernel.act("key.create", {"key": "k1"}))
        await kernel.audit.flush()
        links = await kernel.audit.read()
    assert {link.phase for link in links} == {"intent", "outcome", "act"}
    for data in map(record_data, links):
        assert record_shape().model_validate(data).model_dump() == data

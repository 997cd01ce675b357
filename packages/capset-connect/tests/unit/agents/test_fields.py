"""Every field of a stored agent is kept by whatever stores, writes or changes an agent (spec 5, P4, P5, P7)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capset import Capability, Kernel
from capset.kernel.agent_definition import definition_of
from capset.kernel.registry import Registry
from capset.stores.base import AGENT_FIELDS, AgentField, AgentRow, make_store
from capset.wire.agents import AgentDetail, AgentInput, agent_detail
from capset_connect.agents.definitions import build_agent
from capset_connect.agents.permissions import Author
from capset_connect.agents.rows import definition_of_row, filled, patched, plain_of, restored
from capset_connect.agents.store import StoredAgents
from capset_connect.config_file.shapes import ConfigurationShape
from tests.helpers.connect.agents.fields import AGENTS, VALUES

ROW = AgentRow("a", None, "", "", "", (), (), (), "active", 1, "", "", "")


def normal(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return members in the form in which an agent gives them back."""
    return plain_of(filled(ROW, AgentInput.model_validate(plain)))


@pytest.mark.spec("P4")
def test_the_fields_are_those_that_can_be_written_and_those_that_are_stored() -> None:
    fields_of_agents = {field.name for field in AGENT_FIELDS}

    def hold(actual: Iterable[str], expected: Iterable[str], advice: str) -> None:
        lacks, more = sorted(set(expected) - set(actual)), sorted(set(actual) - set(expected))
        assert not lacks, f"{lacks} of AGENT_FIELDS (capset/stores/base/agents.py): {advice}"
        assert not more, f"{more} is too much by AGENT_FIELDS (capset/stores/base/agents.py): {advice}"

    row_only = {"id", "org", "version", "static_hash", "created_at", "updated_at", "author"}
    columns = {field.name for field in fields(AgentRow)} - row_only
    hold(columns, fields_of_agents, "fields of AgentRow there, but for its own")
    hold(AgentInput.model_fields, fields_of_agents, "members of AgentShape or AgentInput in capset/wire/agents.py")
    hold(AgentDetail.model_fields.keys() & fields_of_agents, fields_of_agents, "members of AgentDetail there, in wire/")
    hold(VALUES, fields_of_agents, f"lines of VALUES in {__name__}")
    in_file = set(ConfigurationShape.model_fields) & set(AgentInput.model_fields)
    in_files = {field.name for field in AGENT_FIELDS if field.in_file}
    hold(
        in_file,
        in_files,
        "those with in_file are members of ConfigurationShape in capset_connect/config_file/",
    )
    left_out = {name for name in fields_of_agents if normal({"name": "a"}).get(name, None) is None}
    optional = {field.name for field in AGENT_FIELDS if field.is_optional}
    hold(left_out, optional, "those with is_optional are null where an agent does not have them")


OF_FILES = {
    **{name: values for name, values in VALUES.items() if name != "mcp_servers"},  # these become capabilities
    "capabilities": st.just(["kit", "other"]),
    "instructions": st.just(["Be brief.", "Be kind."]),  # which need no tidying
}


@pytest.mark.spec("P4")
@pytest.mark.parametrize(
    "field",
    [agent_field for agent_field in AGENT_FIELDS if agent_field.in_file and agent_field.name in OF_FILES],
    ids=lambda agent_field: agent_field.name,
)
@given(data=st.data())
def test_an_agent_that_is_made_of_a_file_has_every_field_of_it(field: AgentField, data: st.DataObject) -> None:
    registry = Registry.of([Capability("kit"), Capability("other")])
    definition = {"name": "a", field.name: data.draw(OF_FILES[field.name])}
    stored = json.loads(definition_of(build_agent(definition, registry, "agent.json"))).get(field.name)
    assert stored == definition[field.name], (
        f"a file's {field.name!r} is dropped where the file is run: agent_of in capset_connect/agents/definitions.py"
        " gives it to Agent, and agent_settings in capset/kernel/agent_definition.py writes it"
    )


@pytest.mark.spec("P4", "P7")
@given(plain=AGENTS)
def test_what_is_written_is_given_back(plain: dict[str, Any]) -> None:
    row = filled(ROW, AgentInput.model_validate(plain))
    row_values = plain_of(row)
    assert row_values.keys() == VALUES.keys()
    assert filled(ROW, AgentInput.model_validate(row_values)) == row
    assert {name: row_values[name] for name in definition_of_row(row)} == definition_of_row(row)
    detail = agent_detail(row).plain()
    assert filled(ROW, AgentInput.model_validate({name: detail[name] for name in VALUES})) == row
    assert filled(ROW, restored(row, row.status)) == row


@pytest.mark.spec("P7")
@pytest.mark.parametrize("name", VALUES)
@given(before=AGENTS, after=AGENTS)
def test_a_patch_of_one_field_leaves_all_others(name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    row = filled(ROW, AgentInput.model_validate(before))
    original = plain_of(row)
    changed = plain_of(filled(row, patched(row, {name: after[name]})))
    assert {key: changed[key] for key in changed if key != name} == {
        key: original[key] for key in original if key != name
    }
    if not isinstance(after[name], dict):  # objects are merged
        assert changed[name] == normal(after)[name]


@pytest.mark.spec("P5")
@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=AGENTS, second=AGENTS)
async def test_every_version_keeps_every_field(
    tmp_path: Path, scheme: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    store = make_store("memory://" if scheme == "memory" else f"sqlite:///{tmp_path / 'agents.db'}")
    await store.open()
    try:
        name = f"agent-{len((await store.agents.list(_all())).items):04}"
        first_row = filled(AgentRow(name, None, "", "", "", (), (), (), "active", 1, "h1", "t", "t"), _input(first))
        other = filled(AgentRow(name, None, "", "", "", (), (), (), "active", 2, "h2", "t", "t"), _input(second))
        await store.agents.create(first_row)
        assert await store.agents.get(None, name) == first_row
        assert await store.agents.replace(other)
        assert await store.agents.get(None, name) == other
        assert await store.agents.version(None, name, 1) == first_row
    finally:
        await store.close()


@pytest.mark.spec("P4", "P7")
@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
async def test_a_patch_of_one_field_alone_is_a_version(name: str, data: st.DataObject) -> None:
    kits = [Capability(kit_name) for kit_name in ("one", "two")]
    choice = st.lists(st.sampled_from([kit.name for kit in kits]), min_size=1, unique=True)
    agents = st.fixed_dictionaries({**VALUES, "capabilities": choice})
    before = data.draw(agents)
    after = data.draw(agents.filter(lambda agent: normal(agent)[name] != normal(before)[name]))
    async with Kernel(store="memory://") as kernel:
        stored = StoredAgents(kernel, Registry.of(kits))
        author = Author("user:ada", is_admin=True)
        row = await stored.create(None, _input(before), author=author)
        assert await stored.change(None, row.id, {name: before[name]}, author=author) == row, "nothing has changed"
        changed = await stored.change(None, row.id, {name: after[name]}, author=author)
        assert changed.version == 2
        assert await kernel.store.agents.get(None, row.id) == changed
        assert plain_of(changed)[name] != plain_of(row)[name]


def _input(plain: dict[str, Any]) -> AgentInput:
    return AgentInput.model_validate(plain)


def _all() -> Any:
    from capset.stores.base import AgentQuery

    return AgentQuery(None, limit=1_000)

"""Agents in files: what they may say, and how everything else is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capset import Agent, Capability, Registry, compose
from capset.errors import CapsetError, DefinitionError
from capset.kernel.agent_definition import definition_of
from capset_connect.agents.definitions import build_agent
from capset_connect.config_file import read_configuration
from capset_connect.mcp import McpServer
from capset_connect.openapi import OpenApi
from capset_connect.pins.tool_pins import capability_with

REGISTRY = Registry.of([Capability("noop"), Capability("test_math"), Capability("memory")])


def names_of(agent: Agent) -> list[str]:
    """Return the names of the capabilities that an agent uses, in order."""
    return [capability.name for capability in agent.uses if not callable(capability)]


def refused(folder: Path, name: str, content: str | bytes) -> str:
    """Return why a file with this content is refused; the message begins with the file's name."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DefinitionError) as error:
        read_configuration(path, REGISTRY)
    assert error.value.message.startswith(str(path))
    return error.value.message.removeprefix(str(path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "name: scribe\nsystem_prompt: |\n  Keep “notes”.\ncapabilities: [noop, {id: memory}]\n"),
        ("a.yml", 'name: scribe\nsystem_prompt: "Keep “notes”.\\n"\ncapabilities: [noop, memory]\n'),
        ("A.YAML", '{"name": "scribe", "system_prompt": "Keep “notes”.\\n", "capabilities": ["noop", "memory"]}'),
        ("a.json", '{"name": "scribe", "system_prompt": "Keep “notes”.\\n", "capabilities": ["noop", "memory"]}'),
        ("a.toml", 'name = "scribe"\nsystem_prompt = "Keep “notes”.\\n"\ncapabilities = ["noop", {id = "memory"}]'),
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_every_format_says_the_same(name: str, text: str, mark: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(mark + text.encode())
    agent = read_configuration(tmp_path / name, REGISTRY).agent
    assert (agent.name, agent.system_prompt) == ("scribe", "Keep “notes”.\n")
    assert names_of(agent) == ["noop", "memory"]
    assert (agent.description, agent.instructions) == ("", ())


def test_everything_that_a_file_says_is_kept_in_its_order() -> None:
    data = {"name": "a", "capabilities": ["test_math", "memory", "noop"], "instructions": [" one ", "", "two"]}
    agent = build_agent({**data, "description": "About it."}, REGISTRY, "here")
    assert agent.description == "About it."
    assert names_of(agent) == ["test_math", "memory", "noop"]
    assert agent.instructions == ("one", "two")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "name: [x", "line 1: not YAML: expected ',' or ']'"),
        ("a.yaml", "name: x\n\tdescription: y", "line 2: not YAML: found character '\\t'"),
        ("a.yaml", "name: x\n---\nname: y", "line 2: not YAML: but found another document"),
        ("a.yaml", "name: x\ninstructions: *nowhere", "line 2: not YAML: found undefined alias"),
        ("a.yaml", "name: x\nname: y", "line 2: not YAML: 'name' is repeated"),
        ("a.yaml", "name: x\n[a, b]: y", "found unhashable key"),
        ("a.yaml", "name: x\ndescription: 2024-13-45", "a number, a date or a tagged value cannot be read"),
        ("a.yaml", "name: !!int ''", "a number, a date or a tagged value cannot be read"),
        ("a.yaml", "name: !!timestamp never", "a number, a date or a tagged value cannot be read"),
        ("a.yaml", "name: " + "9" * 5_000, "a number, a date or a tagged value cannot be read"),
        ("a.yaml", "name: \x00", "not YAML: cannot be parsed"),
        ("a.yaml", "name: " + "[" * 5_000, "is nested too deeply"),
        ("a.json", '{"name": "x",\n x}', "line 2: not JSON: Expecting property name"),
        ("a.json", '{"name": "x", "name": "y"}', "not JSON: 'name' is repeated"),
        ("a.json", '{"name": ' + "9" * 5_000 + "}", "not JSON: Exceeds the limit"),
        ("a.json", "[" * 100_000, "is nested too deeply"),
        ("a.json", "", "line 1: not JSON"),
        ("a.toml", "name = x", "not TOML: Invalid value (at line 1, column 8)"),
        ("a.toml", 'name = "x"\nname = "y"', "not TOML: Cannot overwrite a value"),
        ("a.toml", "name = " + "[" * 100_000, "at most 100 levels"),
        ("a.txt", "name: x", ": a configuration file ends in .yaml, .yml, .json, .toml"),
        ("agent", "name: x", ": a configuration file ends in .yaml, .yml, .json, .toml"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_refused_with_its_place(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    assert message in refused(tmp_path, name, text)


@pytest.mark.parametrize(
    "text",
    [
        '!!python/object/apply:os.mkdir ["{}"]',
        'name: !!python/object/new:os.mkdir ["{}"]',
        "name: !!python/name:os.mkdir",
        "name: !!python/module:os",
        "name: !mine x",
    ],
)
def test_a_tag_makes_no_object(text: str, tmp_path: Path) -> None:
    target = tmp_path / "made"
    assert "could not determine a constructor for the tag" in refused(tmp_path, "a.yaml", text.format(target))
    assert not target.exists()


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
@pytest.mark.parametrize("text", ["", "[]", "5", '"name: x"', "null", '["name"]'])
def test_what_is_no_mapping_is_no_agent(name: str, text: str, tmp_path: Path) -> None:
    message = refused(tmp_path, name, text)
    assert "expected a mapping, such as one with a name" in message or (
        name == "a.json" and text == "" and "not JSON" in message
    )


@pytest.mark.spec("P4")
def test_a_file_names_a_model_and_a_static_context(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: a\nmodel: openai:gpt-9\nstatic_context: {tier: pro, limits: {depth: [1, null]}}")
    agent = read_configuration(path, REGISTRY).agent
    assert agent.model == "openai:gpt-9"
    assert dict(agent.static_context) == {"tier": "pro", "limits": {"depth": [1, None]}}


@pytest.mark.spec("P4")
@pytest.mark.parametrize(
    ("context", "place"),
    [
        ("{since: 2026-01-01}", "static_context.since"),
        ("{deep: {big: .nan}}", "static_context.deep.big"),
        ("{1: one}", "static_context.1"),
    ],
)
def test_a_static_context_is_json(tmp_path: Path, context: str, place: str) -> None:
    assert place in refused(tmp_path, "a.yaml", f"name: a\nstatic_context: {context}")


def test_every_field_that_does_not_fit_is_listed(tmp_path: Path) -> None:
    wrong = {
        "nme": "x",
        "system_prompt": True,
        "instructions": "one",
        "description": None,
        "capabilites": [],
        "modle_settings": "some-model",
    }
    message = refused(tmp_path, "a.json", json.dumps(wrong))
    problems = dict(line.strip().removeprefix("line 1: ").split(": ", 1) for line in message.splitlines()[1:])
    assert problems == {
        "description": "Input should be a valid string",
        "system_prompt": "Input should be a valid string",
        "instructions": "Input should be a valid list",
        "nme": "there is no such field (did you mean 'name'?)",
        "capabilites": "there is no such field (did you mean 'capabilities'?)",
        "modle_settings": "there is no such field",
    }


def test_entries_that_do_not_fit_are_named_by_their_place(tmp_path: Path) -> None:
    entries = [{"id": "noop", "config": {"secret": "hunter2"}}, 5, {"id": 7}, {}]
    message = refused(tmp_path, "a.json", json.dumps({"name": "a", "capabilities": entries}))
    places = [line.strip().split(": ")[1] for line in message.splitlines()[1:]]
    for place in ("capabilities.0.config", "capabilities.1", "capabilities.2.id", "capabilities.3.id"):
        assert place in places
    assert "hunter2" not in message


def test_every_capability_that_is_not_there_is_listed() -> None:
    data = {"name": "a", "capabilities": ["test_mth", "noop", {"id": "xyzzy"}]}
    with pytest.raises(DefinitionError) as error:
        build_agent(data, REGISTRY, "here")
    assert [(field.path, field.expected) for field in error.value.fields] == [
        ("capabilities.0", "unknown capability 'test_mth'; did you mean 'test_math'?"),
        ("capabilities.2", "unknown capability 'xyzzy'; available: memory, noop, test_math"),
    ]
    assert all(field.expected in error.value.message for field in error.value.fields)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"name": ""}, "here: an agent's name must match"),
        ({"name": "a/b"}, "got 'a/b'"),
        ({"name": "x" * 101}, "an agent's name must match"),
        ({"name": "a", "system_prompt": "\ud800"}, "here: agent 'a': system_prompt holds a lone surrogate"),
        ({"name": "a", "instructions": ["ok", "\udfff"]}, "here: agent 'a': instructions holds a lone surrogate"),
    ],
)
def test_what_no_agent_can_be_is_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(DefinitionError) as error:
        build_agent(data, REGISTRY, "here")
    assert message in error.value.message


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for name, reason in (
        ("missing.yaml", "cannot be read: No such file or directory"),
        ("folder.yaml", "cannot be read: Is a directory"),
        ("loop.yaml", "cannot be read: Too many levels of symbolic links"),
    ):
        with pytest.raises(DefinitionError) as error:
            read_configuration(tmp_path / name, REGISTRY)
        assert error.value.message == f"{tmp_path / name}: {reason}"
    assert refused(tmp_path, "a.yaml", b"name: \xff") == ": is not UTF-8 text, at byte 6"


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "a.yaml", b"#" * 1_048_577) == ": a configuration file has at most 1048576 bytes"
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    with pytest.raises(DefinitionError, match="at most 1048576 bytes"):
        read_configuration(tmp_path / "endless.yaml", REGISTRY)


def test_aliases_cannot_grow_without_end(tmp_path: Path) -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    text = "\n".join(["l0: &l0 [x, x]", *levels, "name: a", "instructions: *l11"])
    assert "at most 100,000 values" in refused(tmp_path, "a.yaml", text)
    assert "at most 100 levels" in refused(tmp_path, "b.yaml", "name: a\ninstructions: &own [*own]")


def test_a_capability_that_stands_twice_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"capabilities\.2: 'noop' is listed twice"):
        build_agent({"name": "a", "capabilities": ["noop", "memory", {"id": "noop"}]}, REGISTRY, "here")


@pytest.mark.spec("R25", "P4")
def test_agents_are_tools_of_others_by_name_by_file_and_in_place(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "digger.yaml").write_text("{name: digger, description: Digs., agents: [../tiny.yaml]}")
    (tmp_path / "tiny.yaml").write_text("{name: tiny, description: Does little., capabilities: [noop]}")
    head = tmp_path / "head.yaml"
    head.write_text(
        """
        name: head
        capabilities: [test_math]
        agents:
          - clerk
          - deep/digger.yaml
          - {agent: {name: inner, agents: [clerk]}, description: Is written here., name: ask_inner, effect: read,
             permissions: [staff:ask], timeout: 30}
        """
    )
    registry = Registry.of(REGISTRY.capabilities.values(), [Agent("clerk", description="Files.")])
    agent = read_configuration(head, registry).agent
    tools = {tool.name: tool for tool in agent.part.tools}
    assert [*tools] == ["clerk", "digger", "ask_inner"]
    inner = tools["ask_inner"]
    assert (inner.effect, inner.description, inner.timeout) == ("read", "Is written here.", 30.0)
    assert inner.permissions == {"staff:ask"}
    assert tools["clerk"].effect == "write"
    rebuilt = build_agent(json.loads(definition_of(agent)), registry, "kept")
    assert compose(rebuilt).static_hash == compose(agent).static_hash, "what is kept of it makes the same agent"
    rebuilt = build_agent(json.loads(definition_of(rebuilt)), REGISTRY, "kept")
    assert compose(rebuilt).static_hash == compose(agent).static_hash, "where no agent is installed, too"


@pytest.mark.spec("R25", "P4")
@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ("[a.yaml]", "a.yaml: an agent cannot be its own tool"),
        ("[b.yaml]", "a.yaml: an agent cannot be its own tool"),
        ("[none.yaml]", "none.yaml: cannot be read: No such file"),
        (r'["x\0.yaml"]', "is not a valid file path"),
        ("[clark]", "unknown agent 'clark'"),
        ("[{agent: {name: x}}]", "agents.0: as_tool('x') needs a description: the model chooses by it"),
        ("[{agent: {name: x, description: X., agents: [clark]}}]", "unknown agent 'clark'"),
        ("[{agent: {name: x, description: X.}, effect: paint}]", "agents.0.effect"),
        ("[{agent: {name: x, description: X.}, timeout: -1}]", "agents.0: "),
        ("[{agent: {name: x, description: X., capabilities: [nope]}}]", "agents.0:"),
        ("[{agent: 5}]", "agents.0"),
        ("[{name: x}]", "agents.0"),
        ("5", "agents"),
    ],
)
def test_agents_that_are_none_are_named(tmp_path: Path, agents: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text(f"{{name: a, description: A., agents: {agents}}}")
    (tmp_path / "b.yaml").write_text("{name: b, description: B., agents: [a.yaml]}")
    with pytest.raises(CapsetError) as error:
        read_configuration(tmp_path / "a.yaml", REGISTRY)
    assert message in error.value.message, error.value.message


@pytest.mark.spec("R25")
def test_a_stored_definition_names_no_file() -> None:
    with pytest.raises(CapsetError, match=r"unknown agent 'b\.yaml'"):
        build_agent({"name": "a", "agents": ["b.yaml"]}, REGISTRY, "kept")


@pytest.mark.spec("M6")
def test_the_sources_of_a_file_are_those_of_all_that_it_names(tmp_path: Path) -> None:
    books = {"mcp_servers": {"books": {"command": ["books"], "cwd": "here"}}}
    inner = {"name": "inner", "description": "I.", "capabilities": ["mcp:books"], **books}
    outer = {"name": "outer", "agents": ["in/inner.json"], "apis": {"pets": {"document": "pets.json"}}}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "inner.json").write_text(json.dumps(inner))
    (tmp_path / "outer.json").write_text(json.dumps(outer))
    pets, server = read_configuration(tmp_path / "outer.json", REGISTRY, upstream=lambda _: capability_with).sources
    assert isinstance(pets, OpenApi)
    assert isinstance(server, McpServer)
    assert (pets.document, server.cwd) == (str(tmp_path / "pets.json"), str(tmp_path / "in" / "here"))
    (tmp_path / "outer.json").write_text(json.dumps({**outer, **books}))
    with pytest.raises(DefinitionError, match="two of its agents declare MCP server 'books' differently"):
        read_configuration(tmp_path / "outer.json", REGISTRY, upstream=lambda _: capability_with)

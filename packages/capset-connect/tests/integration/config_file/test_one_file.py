"""A whole agent in one file: prompt, actions, policies, sub-agents, and what others use of it (spec 4, G27)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset import Agent, Capability, Kernel, Principal, Registry
from capset.errors import PermissionDenied
from capset_connect.pins.tool_pins import capability_with
from tests.helpers.connect.config_file.support import REGISTRY, add, folder, read, refused

POLICIES = """
    from capset import deny

    def small_sums(request):
        if request.arguments is not None and request.arguments.get("a", 0) > 100:
            return deny("only small sums")
        return True
"""
NOTIFY = (
    "{name: notify, title: Notify, handler: ./handlers/notify.py, permissions: [], "
    "parameters: {message: {type: string}}}"
)


@pytest.mark.spec("G27")
async def test_a_file_has_prompt_model_actions_and_policies(tmp_path: Path) -> None:
    folder(tmp_path, {"policies.py": POLICIES})
    configuration = read(
        tmp_path,
        f"""\
        name: clerk
        description: Adds.
        system_prompt: Add what you are given.
        instructions: [Answer with a number.]
        model: openai:gpt-9
        capabilities: [sums]
        policies: [./policies.py:small_sums]
        actions: [{NOTIFY}]
        allowance: {{session: {{calls: 50}}}}
        static_context: {{tier: pro}}
        """,
    )
    agent = configuration.agent
    assert (agent.name, agent.description, agent.system_prompt) == ("clerk", "Adds.", "Add what you are given.")
    assert (agent.instructions, agent.model) == (("Answer with a number.",), "openai:gpt-9")
    assert dict(agent.static_context) == {"tier": "pro"}
    assert agent.allowance is not None
    principal = Principal("ada", permissions=["sums:read"])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=principal) as session:
        assert set(session.snapshot.tools) == {"notify", "add", "subtract"}
        assert (await session.try_message(session.message("add", {"a": 1, "b": 2}))).data == 3
        refusal = await session.try_message(session.message("add", {"a": 101, "b": 2}))
        assert isinstance(refusal.error, PermissionDenied)
        assert "only small sums" in refusal.error.message


@pytest.mark.spec("G27")
async def test_arguments_of_an_installed_tool_are_restricted(tmp_path: Path) -> None:
    text = "actions: [{name: add, tool: sums.add, arguments: {a: {type: integer, maximum: 5}}}]"
    configuration = read(tmp_path, text)
    principal = Principal("ada", permissions=["sums:read"])
    async with Kernel("memory://") as kernel, kernel.open(configuration.agent, principal=principal) as session:
        assert (await session.try_message(session.message("add", {"a": 5, "b": 100}))).data == 105
        refusal = await session.try_message(session.message("add", {"a": 6, "b": 1}))
        assert isinstance(refusal.error, PermissionDenied)


@pytest.mark.spec("G27", "G28")
def test_arguments_that_no_tool_has_are_refused(tmp_path: Path) -> None:
    text = "actions: [{name: add, tool: sums.add, arguments: {aa: {type: integer}}}]"
    ((_, path, message),) = refused(tmp_path, text)
    assert (path, "unknown argument 'aa'" in message) == ("actions.0.arguments", True), message
    own = NOTIFY.replace("permissions", "arguments: {message: {const: x}}, permissions")
    ((_, path, message),) = refused(tmp_path, f"actions: [{own}]")
    assert (path, "restrict them there" in message) == ("actions.0.arguments", True), message


@pytest.mark.spec("G27")
async def test_stored_agents_use_the_actions_of_a_served_file(tmp_path: Path) -> None:
    folder(tmp_path, {"policies.py": POLICIES})
    text = f"policies: [./policies.py:small_sums]\nactions: [{NOTIFY}, {{name: plus, tool: sums.add}}]"
    configuration = read(tmp_path, text)
    registry = configuration.within(REGISTRY)
    stored = Agent("stored", uses=[registry.get("actions")])
    principal = Principal("ada", permissions=["sums:read"])
    async with Kernel("memory://") as kernel, kernel.open(stored, principal=principal) as session:
        assert set(session.snapshot.tools) == {"notify", "plus"}
        assert (await session.try_message(session.message("plus", {"a": 1, "b": 2}))).data == 3
        refusal = await session.try_message(session.message("plus", {"a": 101, "b": 2}))
        assert isinstance(refusal.error, PermissionDenied), "the policies of the file apply wherever its actions are"


@pytest.mark.spec("G27", "R25")
async def test_a_sub_agent_in_a_file_has_its_own_actions(tmp_path: Path) -> None:
    inner = f"{{name: helper, description: Notifies., actions: [{NOTIFY}]}}"
    folder(tmp_path, {"helper.yaml": inner})
    configuration = read(tmp_path, "agents: [helper.yaml]")
    (tool,) = configuration.agent.part.tools
    assert isinstance(tool.block, Agent)
    assert [inner_tool.name for inner_tool in tool.block.part.tools] == ["notify"]
    handler = tmp_path / "handlers" / "notify.py"
    assert {path.resolve() for path in configuration.files} == {
        tmp_path / "capset.yaml",
        tmp_path / "helper.yaml",
        handler,
    }


@pytest.mark.spec("G28", "R25")
def test_what_a_server_has_belongs_in_the_outer_file(tmp_path: Path) -> None:
    folder(tmp_path, {"helper.yaml": "{name: helper, description: Helps., governance: {require_auth: true}, tols: []}"})
    problems = [message for _, path, message in refused(tmp_path, "agents: [helper.yaml]") if path == "agents.0"]
    assert any("governance: applies to a whole server: write it in capset.yaml" in message for message in problems)
    assert any("tols: there is no such field" in message for message in problems), problems


@pytest.mark.spec("G27")
def test_an_installed_capability_named_actions_is_in_the_way(tmp_path: Path) -> None:
    configuration = read(tmp_path, f"actions: [{NOTIFY}]")
    with pytest.raises(Exception, match="two different capabilities named 'actions'"):
        configuration.within(Registry.of([Capability("actions")]))


@pytest.mark.spec("M6", "G27")
def test_servers_belong_to_the_agents_that_name_them(tmp_path: Path) -> None:
    def servers_of(more: str) -> tuple[set[str], ...]:
        text = f"{{mcp_servers: {{books: {{url: 'https://a.example'}}, pay: {{url: 'https://b.example'}}}}, {more}}}"
        configuration = read(tmp_path, text, upstream=lambda _: capability_with)
        agents = [configuration.agent, *(tool.block for tool in configuration.agent.part.tools)]
        return tuple({ref.name for ref in agent.uses if not callable(ref)} for agent in agents if agent is not None)

    assert servers_of("name: clerk") == ({"mcp:books", "mcp:pay"},), "all of them, if none is named"
    assert servers_of("capabilities: ['mcp:books']") == ({"mcp:books"},)
    payer = "agents: [{agent: {name: payer, description: Pays., capabilities: ['mcp:pay']}}]"
    assert servers_of(payer) == (set[str](), {"mcp:pay"})


@pytest.mark.spec("M6")
def test_new_names_of_tools_that_are_not_approved_yet_are_no_problem(tmp_path: Path) -> None:
    text = """\
    mcp_servers: {books: {url: 'https://a.example'}}
    capabilities: [{id: 'mcp:books', prefix: lib_, rename: {title: heading}}]
    """
    assert read(tmp_path, text, upstream=lambda _: capability_with).warnings == ()
    configuration = read(tmp_path, text, upstream=lambda _: lambda source: capability_with(source, [add]))
    (warning,) = configuration.warnings
    assert (warning.line, warning.path) == (2, "capabilities.0.rename.title")


@pytest.mark.spec("G28", "R25")
def test_an_agent_in_place_that_needs_more_is_sent_to_a_file(tmp_path: Path) -> None:
    text = "agents: [{agent: {name: helper, description: Helps., actions: [], governance: {}}}]"
    problems = {path: message for _, path, message in refused(tmp_path, text)}
    assert "needs a file of its own" in problems["agents.0.agent.actions"]
    assert "it belongs at the top level" in problems["agents.0.agent.governance"]


@pytest.mark.spec("G28", "R25")
def test_warnings_of_a_sub_agents_file_count_the_outer_governance(tmp_path: Path) -> None:
    sending = NOTIFY.replace("permissions: []", "permissions: [notes:send], effect: external")
    folder(tmp_path, {"helper.yaml": f"{{name: helper, description: Notifies., actions: [{sending}]}}"})
    text = "agents: [helper.yaml]\ngovernance: {require_auth: true, allowance: {limits: [10/1h]}}"
    assert read(tmp_path, text).warnings == ()
    assert len(read(tmp_path, "agents: [helper.yaml]").warnings) == 1, "nothing limits how often it is called"


@pytest.mark.spec("G28")
def test_a_policy_that_is_listed_twice_is_a_problem_at_its_place(tmp_path: Path) -> None:
    folder(tmp_path, {"policies.py": POLICIES})
    twice = "policies: [./policies.py:small_sums, ./policies.py:small_sums]"
    assert [path for _, path, _ in refused(tmp_path, twice)] == ["policies.1"]


@pytest.mark.spec("G28")
def test_the_files_of_a_configuration_are_those_that_it_names(tmp_path: Path) -> None:
    folder(tmp_path, {})
    (tmp_path / "alias.py").symlink_to(tmp_path / "handlers" / "notify.py")
    configuration = read(tmp_path, f"actions: [{NOTIFY.replace('./handlers/notify.py', './alias.py')}]")
    assert set(configuration.files) == {tmp_path / "capset.yaml", tmp_path / "alias.py"}

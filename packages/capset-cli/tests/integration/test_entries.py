"""What an agent chooses, as the command line shows and uses it (spec 1, C4, C10, C15, C27, C40)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.helpers.cli.support import Command, clean_environment, install

LIBRARY = '''
from pydantic import BaseModel

from capset import Agent, Capability, Context, Preset, Resource, tool


class Limits(BaseModel):
    count: int = 5


notes = Resource("notes", list[str], scope="session", default=list)


@tool(effect="read")
async def look(ctx: Context) -> int:
    """Look how many there may be."""
    return ctx.config(shelf).count


@tool(effect="write", permissions={"shelf:write"})
async def put(book: str) -> str:
    """Put a book."""
    return book


@tool(effect="read")
async def peek() -> str:
    """Peek."""
    return "gold"


def now() -> str:
    return "[red]Now.[/]"


shelf = Capability(
    "shelf",
    aliases=["bookcase"],
    risk="high",
    version="2",
    instructions="Keep it [b]tidy[/b].\\nAlways.",
    tools=[look],
    presets={
        "writing": Preset(tools=[put], instructions="You may put.", files={"/rules.txt": "Put it back."}),
        "quiet": Preset(context=[now, {"mood": "calm"}], resources=[notes]),
    },
    default=["writing"],
    config=Limits,
)
desk = Capability("desk", uses=[shelf])
vault = Capability("vault", tools=[peek])


def inside(ctx: Context) -> list[Capability]:
    return [vault]


thief = Agent("thief", uses=[desk, inside])
keeper = Agent("keeper", uses=[shelf], context=["Mine."])
'''
FILE = """
name: librarian
system_prompt: Lend.
capabilities:
  - id: desk
  - id: bookcase
    presets: {quiet: true}
    config: {count: 3}
    prefix: s_
    rename: {put: place}
"""


@pytest.fixture
def library(tmp_path: Path) -> Command:
    """Give the command where the library is installed, with a file of an agent that chooses."""
    packages = tmp_path / "packages"
    packages.mkdir()
    capabilities = {name: f"library:{name}" for name in ("shelf", "desk", "vault")}
    agents = {name: f"library:{name}" for name in ("thief", "keeper")}
    install(packages, "library", LIBRARY, capabilities=capabilities, agents=agents)
    (tmp_path / "librarian.yaml").write_text(FILE, encoding="utf-8")
    return Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(packages)))


@pytest.mark.spec("C40")
def test_a_composition_is_a_tree_of_who_brings_what_and_why(library: Command) -> None:
    done = library("compose", "librarian.yaml")
    assert done.code == 0
    lines = [line.rstrip() for line in done.out.splitlines()]
    start = lines.index("├── shelf needed by desk")
    assert lines[start : lines.index("├── system text")] == [
        "├── shelf needed by desk",
        "│   ├── presets  ● writing  ● quiet",
        '│   ├── config   {"count": 3}',
        "│   ├── ● s_look (look) read",
        "│   ├── instruction Keep it [b]tidy[/b].",
        "│   ├── preset writing",
        "│   │   ├── ○ place (put) write, needs shelf:write — local lacks the permission shelf:write",
        "│   │   ├── instruction You may put.",
        "│   │   └── file        /rules.txt",
        "│   └── preset quiet",
        "│       ├── resource    session.notes",
        "│       ├── context     now()",
        "│       └── context     mood",
        "├── desk",
    ]
    assert "● place (put) write" in library("compose", "librarian.yaml", "--grant", "shelf:write").out


@pytest.mark.spec("C40")
def test_the_same_as_data(library: Command) -> None:
    composed = library("compose", "librarian.yaml", "--json").json
    assert [(capability["id"], capability["path"]) for capability in composed["uses"]] == [
        ("shelf", ["librarian", "desk", "shelf"]),
        ("desk", ["librarian", "desk"]),
    ]
    assert composed["uses"][0]["presets"] == {"writing": True, "quiet": True}
    assert composed["uses"][0]["names"] == {"look": "s_look", "put": "place"}
    assert composed["uses"][0]["config"] == {"count": 3}
    assert {"surface": "context", "name": "mood", "capability": "shelf", "preset": "quiet"}.items() <= next(
        entry for entry in composed["explained"] if entry["name"] == "mood"
    ).items()
    assert [tool["name"] for tool in composed["tools"]] == ["place", "s_look"]


@pytest.mark.spec("C27")
def test_an_installed_agent_is_composed_by_its_name(library: Command) -> None:
    tree = library("compose", "thief").out
    assert "├── inside() decides at each step what else is used" in tree
    assert "vault" not in tree
    itself = library("compose", "keeper").out
    assert "├── keeper itself\n│   └── context     Mine." in "\n".join(line.rstrip() for line in itself.splitlines())


def test_what_does_not_fit_is_listed_with_its_places(library: Command) -> None:
    wrong = "name: a\ncapabilities: [shelff, {id: shelf, presets: {quite: true}, config: {count: x}}, bookcase]\n"
    (library.folder / "wrong.yaml").write_text(wrong, encoding="utf-8")
    done = library("compose", "wrong.yaml", "--json")
    assert done.code == 2
    assert [field["path"] for field in done.json["error"]["fields"]] == [
        "capabilities.0",
        "capabilities.1.config.count",
        "capabilities.1.presets.quite",
        "capabilities.2",
    ]
    assert "did you mean 'quiet'?" in library("compose", "wrong.yaml").said


@pytest.mark.spec("C10", "C15")
def test_calls_use_the_names_that_the_agent_gives(library: Command) -> None:
    options = ("--agent", "librarian.yaml", "--grant", "shelf:write", "--json")
    for tool in ("place", "shelf.place", "bookcase.place"):
        done = library("call", tool, "--args", '{"book": "Ovid"}', *options)
        assert (done.code, done.json.get("data")) == (0, "Ovid"), done.out
    assert library("call", "s_look", *options).json["data"] == 3
    assert library("call", "put", "--args", '{"book": "Ovid"}', *options).code == 3
    records = library("audit", "query", "--json").json["items"]
    assert [record["tool"] for record in records] == ["put", "s_look", "place", "place", "place"]


@pytest.mark.spec("C10", "P16")
def test_an_alias_calls_and_describes_its_capability(library: Command) -> None:
    called = library("call", "bookcase.look", "--json")
    assert (called.code, called.json["data"]) == (0, 5)
    (record,) = library("audit", "query", "--json").json["items"]
    assert (record["agent"], record["capability"], record["tool"]) == ("shelf", "shelf", "look")
    assert library("describe", "bookcase", "--json").json == library("describe", "shelf", "--json").json
    assert library("describe", "bookcase.look", "--json").json["name"] == "look"
    listing = library("list").out
    assert "ALIASES" in listing
    assert "bookcase" in listing


def test_a_list_without_aliases_has_no_column_for_them(capset: Command) -> None:
    assert "ALIASES" not in capset("list").out


@pytest.mark.spec("P6")
def test_a_description_shows_what_can_be_chosen(library: Command) -> None:
    text = library("describe", "shelf").out
    for fragment in (
        *("version 2", "risk high", "aliases bookcase", "● preset writing on by default", "○ preset quiet off"),
        *("tools put", "adds files", "adds context, resources", '"count": {'),
    ):
        assert fragment in text, fragment
    assert "uses shelf" in library("describe", "desk").out


@pytest.mark.spec("P5")
def test_a_session_goes_on_with_what_was_chosen_and_refuses_where_code_is_gone(library: Command) -> None:
    first = library("call", "s_look", "--agent", "librarian.yaml", "--json").json
    (library.folder / "librarian.yaml").unlink()
    resumed = library("call", "s_look", "--session", first["session"], "--json").json
    assert (resumed["data"], resumed["runtime_hash"]) == (3, first["runtime_hash"])
    begun = library("call", "peek", "--agent", "thief", "--json").json
    assert begun["data"] == "gold"
    on = library("call", "peek", "--session", begun["session"], "--json").json
    assert (on["data"], on["runtime_hash"]) == ("gold", begun["runtime_hash"])
    elsewhere = Command(library.folder, {**library.environ, "PYTHONPATH": ""})
    gone = elsewhere("call", "peek", "--session", begun["session"], "--json")
    assert (gone.code, gone.json["error"]["code"]) == (2, "conflict")
    assert "defined only in code (dynamic uses)" in gone.json["error"]["message"]


@pytest.mark.spec("P4")
def test_the_schema_of_files_knows_what_is_installed(library: Command) -> None:
    for options in ((), ("--json",)):
        schema = json.loads(library("schema", *options).out)
        validator = Draft202012Validator(schema)
        assert validator.is_valid({"name": "a", "capabilities": ["noop", {"id": "shelf", "presets": {"quiet": True}}]})
        assert not validator.is_valid({"name": "a", "capabilities": [{"id": "shelf", "presets": {"quite": True}}]})
    anything = json.loads(library("schema", "--any").out)
    assert Draft202012Validator(anything).is_valid({"name": "a", "capabilities": ["never_heard_of"]})

"""Copies of definitions, pickled ones, and those made by ``dataclasses.replace`` (spec 1, C8, C39)."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, ContextMessage, Policy, Preset, Principal, Resource, compose, deny, policy, tool
from capset.definitions.capabilities import CapabilityRef
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.hooks import Hooks
from capset.definitions.governance.limits import Budget, Limit
from capset.definitions.governance.settings import Governance, Roles
from capset.definitions.resources import Documents
from capset.definitions.tools.retries import Retry
from capset.definitions.tools.toolkits import DynamicToolkit, Toolkit, dynamic_toolkit
from capset.errors import DefinitionError
from capset.ext import McpPrompt, McpResource
from capset.flows import Flow, Generator, Sequencer, as_tool
from capset_connect.mcp import McpServer
from capset_connect.openapi import OpenApi
from scripts.packages import ROOT


class Options(BaseModel):
    size: int = 1


@policy
def careful(request: object) -> bool:
    return True


@tool(policies=[careful], examples=[{"path": "/a"}], effect="read")
def look(path: str = "/") -> str:
    """Look."""
    return path


@dynamic_toolkit
def making(ctx: object) -> list[Any]:
    return []


class Service:
    @tool
    @staticmethod
    def within(path: str) -> str:
        """Look from within."""
        return path


kit = Toolkit("kit", [look])
notes = Resource("notes", list[str], scope="session", default=list)
texts = Documents("texts", scope="user")
more = Preset(context=[{"a": {"b": ["c"]}}], model_settings={"temperature": 0})
shelf = Capability("shelf", tools=[kit, making], resources=[notes], presets={"more": more}, config=Options)
inner = as_tool(Generator("inner"), description="Work.")
agent = Agent("agent", uses=[shelf], static_context={"a": [1]}, tools=[inner])
line = Sequencer("line").then(Generator("first"))
flow = Flow("flow", line)
NAMED = (careful, look, making, Service.within, kit, notes, texts, more, shelf, agent, line, flow)
UNNAMED = (
    *(Policy("other", careful.evaluate), dataclasses.replace(look, name="other"), Toolkit("other")),
    *(DynamicToolkit("other", making.make), Preset(instructions=["other"]), Documents("other", scope="user")),
    *(Resource("other", int, scope="user"), Capability("other", tools=[look]), Capability("other", tools=[look]).part),
    *(Agent("other", uses=[shelf]), Generator("other"), Sequencer("other").then(line)),
)
VALUES: dict[str, Any] = {
    "server": McpServer(name="s", url="https://example.org/mcp", headers={"a": "b"}, rules={"*": {"effect": "read"}}),
    "api": OpenApi(name="a", document={"openapi": "3.1.0"}, url="https://example.org", rules={"x": {"limits": "1/1h"}}),
    "governance": Governance(roles=Roles({"a": ["b:c"]}), redact=["x"]),
    "roles": Roles({"a": ["b:c"], "d": ["a"]}),
    "allowance": Allowance(session=Budget(3)),
    "limit": Limit(3, "1h"),
    "principal": Principal("ada", permissions=["a:b"], attributes={"x": 1}),
    "message": ContextMessage("user", "x"),
    "decision": deny("no"),
    "retry": Retry(3),
}


@pytest.mark.spec("C8", "C39")
@pytest.mark.parametrize("definition", [*NAMED, *UNNAMED, shelf.with_presets(more=False)])
def test_a_copy_is_the_same_definition(definition: Any) -> None:
    assert copy.copy(definition) is copy.deepcopy(definition) is definition
    assert copy.deepcopy({"a": [definition]})["a"][0] is definition


@pytest.mark.spec("C8")
def test_copies_are_no_conflict() -> None:
    both = Agent("both", uses=[shelf, copy.deepcopy(shelf), copy.copy(shelf)], tools=[look, copy.copy(look)])
    assert list(compose(both).tools) == ["look"]


@pytest.mark.spec("C8")
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("definition", NAMED)
def test_a_definition_of_a_module_is_pickled_by_reference(definition: Any, protocol: int) -> None:
    text = pickle.dumps(definition, protocol)
    assert pickle.loads(text) is definition
    assert len(text) < 200
    assert b"__main__" not in text


@pytest.mark.realtime
def test_another_process_finds_it_again() -> None:
    ref = shelf.with_presets(more=False).with_config(Options(size=3))
    text = ForkingPickler.dumps([agent, ref, look, Service.within])
    code = (
        "import pickle, sys; agent, ref, look, within = pickle.loads(sys.stdin.buffer.read()); "
        f"from importlib import import_module; there = import_module({__name__!r}); "
        "print(agent is there.agent, ref.base is there.shelf, dict(ref.presets), ref.config, look is there.look, "
        "within is there.Service.within)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=bytes(text), capture_output=True, check=False, cwd=ROOT)
    assert done.stdout.decode().strip() == "True True {'more': False} size=3 True True", done.stderr.decode()


def test_a_reference_is_pickled_with_its_choices() -> None:
    ref = shelf.with_presets(more=False).with_names(prefix="s_", rename={"look": "see"}).with_config(Options(size=3))
    read = pickle.loads(pickle.dumps(ref))
    assert read.base is shelf
    assert (read.presets, read.config, read.prefix, read.rename) == (ref.presets, ref.config, ref.prefix, ref.rename)
    assert compose(Agent("a", uses=[ref])).static_hash == compose(Agent("a", uses=[read])).static_hash


@pytest.mark.parametrize("definition", UNNAMED)
def test_what_no_module_has_is_refused_in_words(definition: Any) -> None:
    for value in (definition, {"a": [definition]}):
        with pytest.raises(pickle.PicklingError, match="give it a name at the top of a module"):
            pickle.dumps(value)


@pytest.mark.parametrize("name", VALUES)
def test_values_are_copied_and_pickled_as_what_they_hold(name: str) -> None:
    value = VALUES[name]
    for copied in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert (copied, repr(copied), type(copied)) == (value, repr(value), type(value))


def test_a_value_from_another_process_is_as_frozen() -> None:
    read = pickle.loads(pickle.dumps(VALUES["server"]))
    for view in (read.headers, read.rules, read.rules["*"]):
        with pytest.raises(TypeError):
            view["x"] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.url = "https://example.com"


def test_hooks_and_offers_can_be_copied() -> None:
    assert copy.deepcopy(Hooks(on_tool_executed=print)).on_tool_executed == (print,)
    for offer in (McpPrompt(look), McpResource("notes://all", look)):
        assert copy.deepcopy(offer).tool is pickle.loads(pickle.dumps(offer)).tool is look


@pytest.mark.spec("C39")
@pytest.mark.parametrize(
    ("definition", "changes", "message"),
    [
        *((look, {"name": "no name"}, "a tool's name must match"), (look, {"effect": "none"}, "effect must be one of")),
        *((look, {"description": " "}, "needs a docstring"), (look, {"description": "\ud800"}, "lone surrogate")),
        *((look, {"permissions": "a:b"}, "permissions must be a set"), (look, {"timeout": 0}, "timeout must be")),
        (look, {"policies": [careful, Policy("careful", lambda request: False)]}, "two different policies"),
        (look, {"policies": [print]}, "is not a Policy"),
        (look, {"examples": [{"path": 1}]}, "its example 1 does not fit its schema"),
        *((look, {"retry": 3}, "is not idempotent"), (look, {"limits": "often"}, "a limit is written as")),
        *((look, {"argument_bytes": -1}, "argument_bytes must be"), (look, {"title": 5}, "title must be text")),
        (look, {"approval": bool}, "must be a function of one argument"),
        (careful, {"id": "no id"}, "a policy's id must match"),
        (careful, {"evaluate": bool}, "must be a function of one argument"),
        (careful, {"binding": "snapshot", "phase": "call"}, "is evaluated at calls only"),
        (texts, {"scope": "request"}, "need the scope session"),
        (shelf.ref, {"presets": {"none": True}}, "unknown preset 'none'"),
        (shelf.ref, {"presets": {"more": 1}}, "True or False; got 1"),
        (shelf.ref, {"config": object()}, "its config is a Options"),
        (shelf.ref, {"prefix": "no "}, "with its prefix must match"),
        (shelf.ref, {"prefix": 5}, "prefix must be text"),
        (shelf.ref, {"rename": {"none": "x"}}, "unknown tool 'none'"),
        (shelf.ref, {"rename": {"look": "x y"}}, "the new name of 'look' must match"),
        (shelf.ref, {"base": look}, "a reference is to a Capability"),
        *((kit, {"name": "no name", "levels": 1}, "levels"), (shelf, {"name": "no name"}, "unexpected keyword")),
        (notes, {"scope": "none"}, "unexpected keyword"),
        (VALUES["message"], {"role": "system"}, "has the role user or assistant"),
        (VALUES["server"], {"url": "ftp://x"}, "MCP server 's': url"),
        (VALUES["retry"], {"max_attempts": 0}, "max_attempts"),
    ],
    ids=lambda parameter: re.sub(r" at 0x\w+", "", str(parameter)),
)
def test_replace_makes_nothing_that_would_be_refused(definition: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises((DefinitionError, TypeError), match=message):
        dataclasses.replace(definition, **changes)


@pytest.mark.spec("C39")
def test_replace_makes_what_would_be_taken() -> None:
    other = dataclasses.replace(look, name="other", limits="3/1h", instructions=" Say it. ", permissions=["a:b"])
    assert (other.name, other.limits, other.instructions) == ("other", (Limit(3, "1h"),), ("Say it.",))
    assert other.permissions == {"a:b"}
    ref = dataclasses.replace(shelf.ref, presets={"more": False}, config=Options(size=2), prefix="s_")
    assert compose(Agent("a", uses=[ref])).capability_uses[0].names == {"look": "s_look"}
    server = dataclasses.replace(VALUES["server"], timeout=5.0)
    assert (server.timeout, server.headers) == (5.0, {"a": "b"})


@pytest.mark.spec("C4")
def test_a_reference_made_directly_is_checked_and_holds_its_own_config() -> None:
    options = Options(size=2)
    ref = CapabilityRef(shelf, {"more": False}, options)
    options.size = 3
    assert ref.config == Options(size=2)
    with pytest.raises(TypeError):
        ref.presets["more"] = True  # pyright: ignore[reportIndexIssue]
    with pytest.raises(DefinitionError, match="unknown preset"):
        CapabilityRef(shelf, {"less": True})

"""Agents to capture: with presets, prefixes, toolkits, dynamic toolkits, blocks, and generated ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

from capset import Agent, Capability, Policy, Preset, Principal, Request, Tool, policy, tool
from capset.definitions.tools.toolkits import Toolkit, ToolkitContext, dynamic_toolkit
from capset.flows import Generator, as_tool

ANYONE = Principal("ada", permissions=["notes:read", "notes:write"])
NOBODY = Principal("ada")


def make(name: str, *policies: Policy, **more: Any) -> Tool[..., Any]:
    more.setdefault("description", "Do.")

    @tool(name=name, policies=policies, **more)
    def handler(number: int = 1) -> int:
        return number

    return handler


class Counted:
    """A policy that counts how often it is asked."""

    def __init__(self, id: str, answer: Any = True, **more: Any) -> None:
        self.answer = answer
        self.asked = 0
        self.policy = policy(id, self._evaluate, **more)

    def _evaluate(self, request: Request) -> Any:
        self.asked += 1
        return self.answer


def by_name(tools: Iterable[Tool[..., Any]]) -> Mapping[str, Tool[..., Any]]:
    return {tool.name: tool for tool in tools}


@dynamic_toolkit(instructions=["Made here."])
def made(context: ToolkitContext) -> list[Tool[..., Any]]:
    return [make(f"made_for_{context.env.get('tier', 'all')}")]


def everything(*gates: Policy) -> Agent:
    """Return an agent that has something of every kind that a static hash covers."""
    deep = Toolkit("deep", [make("deepest", instructions=["Dig with `deepest`."])])
    kit = Toolkit("kit", [make("inner", examples=[{"number": 2**60}, {"number": 1}]), deep], instructions=["Use it."])
    basis = Capability("basis", tools=[make("base")])
    notes = Capability(
        "notes",
        uses=[basis],
        tools=[kit, make("find", permissions=["notes:read"]), made],
        policies=gates,
        context=[{"b": "1", "a": {"d": "x", "c": ["2", "3"]}}],
        files={"/notes/a.txt": "a"},
        presets={
            "more": Preset(tools=[make("extra")], instructions=["Call `extra`."]),
            "off": Preset(tools=[make("unseen")]),
        },
        default=["more"],
    )
    helper = Generator("helper", system_prompt="Help.", uses=[Capability("aid", tools=[make("aid_it")])])
    return Agent(
        "librarian",
        system_prompt="Keep.",
        instructions=["Be brief."],
        tools=[make("own"), as_tool(helper, name="ask_helper", description="Ask.")],
        uses=[notes.with_names(prefix="n_", rename={"find": "seek"})],
    )


def _tool_of(name: str) -> st.SearchStrategy[Tool[..., Any]]:
    permissions = st.sets(st.sampled_from(["notes:read", "notes:write"]))
    texts = st.lists(st.sampled_from(["Use it.", "Use `one`.", "Ünï."]), max_size=2)
    return st.builds(
        lambda permissions, instructions, effect: make(
            name, permissions=permissions, instructions=instructions, effect=effect
        ),
        permissions,
        texts,
        st.sampled_from(["read", "write"]),
    )


@st.composite
def agents(draw: Callable[..., Any]) -> Agent:
    """Return an agent of capabilities with nested toolkits, policies, permissions and renames."""
    gates = [
        Counted(f"gate_{number}", draw(st.booleans()), binding=draw(st.sampled_from(["live", "snapshot"]))).policy
        for number in range(3)
    ]
    some = st.lists(st.sampled_from(gates), unique=True, max_size=2)
    uses: list[Any] = []
    for number in range(draw(st.integers(0, 3))):
        members: list[Any] = []
        for place in range(draw(st.integers(1, 3))):
            member = draw(_tool_of(f"t{number}_{place}"))
            if draw(st.booleans()):
                member = Toolkit(
                    f"kit_{place}", [member], policies=draw(some), instructions=draw(st.sampled_from([[], ["K."]]))
                )
            members.append(member)
        capability = Capability(f"c{number}", tools=members, policies=draw(some), instructions=[f"I {number}."])
        match draw(st.sampled_from(["plain", "prefix", "rename"])):
            case "prefix":
                uses.append(capability.with_names(prefix=f"p{number}_"))
            case "rename":
                uses.append(capability.with_names(rename={f"t{number}_0": f"other_{number}"}))
            case _:
                uses.append(capability)
    return Agent("generated", system_prompt=draw(st.sampled_from(["", "Be."])), uses=uses, policies=draw(some))

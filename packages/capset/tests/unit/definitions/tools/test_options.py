from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from capset import DefinitionError, Hooks, Tool, Toolkit, ToolkitContext, dynamic_toolkit, tool
from capset.definitions.governance.limits import Limit
from capset.definitions.tools.options import BlockToolOptions, ProcessorOptions, ToolOptions
from capset.definitions.tools.retries import Retry
from capset.definitions.tools.schema_tools import schema_tool
from capset.definitions.tools.toolkits import DynamicToolkit
from capset.flows import as_tool, handler
from tests.helpers.definitions.tools.processors import processor

GIVEN: dict[str, Any] = {
    "permissions": ["a:read"],
    "policies": [],
    "timeout": 5,
    "argument_bytes": 2_000_000,
    "instructions": "Be brief.",
    "examples": [],
    "version": "2",
    "idempotent": True,
    "hooks": Hooks(on_tool_executed=print),
    "cost": 2.5,
    "limits": "3/1h",
    "approval": "ask",
    "retry": 4,
    "effect": "external",
    "credential": "calendar",
}
KEPT = GIVEN | {
    "permissions": frozenset({"a:read"}),
    "policies": (),
    "instructions": ("Be brief.",),
    "examples": (),
    "limits": (Limit(3, "1h"),),
    "retry": Retry(4),
}


@handler()
async def step(text: str) -> str:
    """Take a step."""
    return text


def nothing() -> None: ...


def from_function(**overrides: Any) -> Tool[..., Any]:
    return tool(name="made", description="Do it.", **overrides)(nothing)


def from_schema(**overrides: Any) -> Tool[..., Any]:
    return schema_tool(name="made", description="Do it.", parameters={}, handler=lambda params: None, **overrides)


def from_block(**overrides: Any) -> Tool[..., Any]:
    return as_tool(step, **overrides)


MAKERS: list[tuple[Callable[..., Tool[..., Any]], type]] = [
    (from_function, ToolOptions),
    (from_schema, ToolOptions),
    (from_block, BlockToolOptions),
    (processor, ProcessorOptions),
]


@pytest.mark.spec("F3")
@pytest.mark.parametrize(("make", "option_type"), MAKERS)
def test_every_option_becomes_the_field_of_its_name(make: Callable[..., Tool[..., Any]], option_type: type) -> None:
    assert set(ToolOptions.__annotations__) == set(GIVEN)
    for name in option_type.__annotations__.keys() - {"retry"}:
        assert getattr(make(**{name: GIVEN[name]}), name) == KEPT[name]
    complete = make(**{name: GIVEN[name] for name in option_type.__annotations__})
    assert all(getattr(complete, name) == KEPT[name] for name in option_type.__annotations__)


@pytest.mark.spec("F3")
@pytest.mark.parametrize(("make", "option_type"), MAKERS)
def test_a_default_is_the_one_of_the_field(make: Callable[..., Tool[..., Any]], option_type: type) -> None:
    bare = make()
    for field in fields(Tool):
        assert field.name not in GIVEN or getattr(bare, field.name) == field.default


@pytest.mark.parametrize(
    ("make", "name", "called", "meant"),
    [
        (from_function, "retrie", "tool", "retry"),
        (from_function, "descriptions", "tool", "description"),
        (from_function, "buffer", "tool", None),
        (from_schema, "time_out", "schema_tool", "timeout"),
        (processor, "effects", "Tool.from_processor", "effect"),
        (from_block, "retry", "as_tool", None),
        (from_block, "policy", "as_tool", "policies"),
        (lambda **overrides: Toolkit("kit", **overrides), "instruction", "Toolkit.__init__", "instructions"),
        (lambda **overrides: DynamicToolkit("kit", makes, **overrides), "hook", "DynamicToolkit.__init__", "hooks"),
        (dynamic_toolkit, "nam", "dynamic_toolkit", "name"),
    ],
)
def test_an_option_that_does_not_exist_is_refused_with_the_nearest_name(
    make: Callable[..., object], name: str, called: str, meant: str | None
) -> None:
    with pytest.raises(TypeError) as caught:
        make(**{name: 1})
    suggestion = f". Did you mean {meant!r}?" if meant else ""
    assert str(caught.value) == f"{called}() got an unexpected keyword argument {name!r}{suggestion}"


def makes(context: ToolkitContext) -> list[Tool[..., Any]]:
    return []


@pytest.mark.spec("F3", "G7")
@pytest.mark.parametrize(("make", "option_type"), MAKERS)
def test_a_wrong_value_is_refused_the_same_way_everywhere(
    make: Callable[..., Tool[..., Any]], option_type: type
) -> None:
    name = make().name
    wrong: dict[str, tuple[object, str]] = {
        "permissions": ("a:read", "permissions must be a set of strings"),
        "policies": ([1], "1 is not a Policy"),
        "timeout": (0, "timeout must be a positive number of seconds; got 0"),
        "cost": (-1, "cost must be a number, 0 or more; got -1"),
        "approval": ("never", "approval is 'auto', 'ask' or a function of a Request; got 'never'"),
        "idempotent": (1, "idempotent must be True or False; got 1"),
    }
    for option in wrong.keys() & option_type.__annotations__.keys():
        value, message = wrong[option]
        with pytest.raises(DefinitionError, match=f"^tool {name!r}:? {message}"):
            make(**{option: value})

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from threading import Lock
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from capset import Agent, Capability, Context, DefinitionError, Preset, Resource, compose, tool
from capset.definitions.tools.definition import AnyTool
from capset.ext import schema_tool
from capset.fingerprint.hashes import tool_hash
from capset.flows import Generator
from capset_testing import Say, ScriptedRunner
from tests.helpers.flows.support import run
from tests.helpers.kernel.support import opened


@dataclass(eq=False)
class Box:
    items: list[int]


class Basket(BaseModel):
    items: list[int]


def appending(annotation: Any, *default: Any) -> AnyTool:
    def show(items: Any) -> list[int]:
        """Show."""
        numbers = items if isinstance(items, list) else items.items
        numbers.append(9)
        return numbers

    show.__annotations__["items"], show.__defaults__ = annotation, default
    return tool(effect="read")(show)


def in_json_schema(default: list[int]) -> AnyTool:
    def show(params: dict[str, Any]) -> list[int]:
        params["items"].append(9)
        return params["items"]

    parameters = {"items": {"type": "array", "items": {"type": "integer"}, "default": default}}
    return schema_tool(name="show", description="Show.", parameters=parameters, handler=show, effect="read")


@pytest.mark.spec("K4", "F12")
@pytest.mark.parametrize(
    "make",
    [
        lambda numbers: appending(list[int], numbers),
        lambda numbers: appending(Annotated[list[int], Field(default=numbers)]),
        lambda numbers: appending(list[int], Field(numbers, max_length=5)),
        lambda numbers: appending(Box, Box(numbers)),
        lambda numbers: appending(Basket, Basket.model_construct(items=numbers)),
        in_json_schema,
    ],
)
async def test_the_default_of_a_parameter_stays_as_it_was(make: Any) -> None:
    numbers = [1]
    definition, hash_before = make(numbers), tool_hash(make([1]))
    numbers.append(2)
    async with opened(Agent("a", tools=[definition])) as desk:
        assert [await desk.session.call(definition) for _ in range(2)] == [[1, 9], [1, 9]]
    assert tool_hash(definition) == hash_before
    default: Any = definition.arguments.json_schema["properties"]["items"]["default"]
    assert default in ([1], {"items": [1]})
    assert numbers == [1, 2]


@pytest.mark.spec("K4")
def test_what_cannot_be_changed_is_no_function_of_the_hosts() -> None:
    @tool
    def show(day: date = date(2024, 2, 29), price: Decimal = Decimal("1.5"), place: str = "here") -> str:
        """Show."""
        return f"{day} {price} {place}"

    assert not show.arguments.has_own_code
    assert show.arguments.check({}) == {"day": date(2024, 2, 29), "price": Decimal("1.5"), "place": "here"}


@pytest.mark.spec("C33")
async def test_the_default_of_a_resource_stays_as_it_was() -> None:
    default = {"a": [1]}
    resource = Resource("kept", dict[str, list[int]], scope="session", default=default)
    default["a"].append(2)

    @tool(effect="read")
    async def show(ctx: Context) -> dict[str, list[int]]:
        """Show."""
        stored = await ctx.resource(resource).get()
        stored["a"].append(9)
        return await ctx.resource(resource).get()

    async with opened(Agent("a", tools=[show], resources=[resource])) as desk:
        assert await desk.session.call(show) == {"a": [1]}


@pytest.mark.spec("C19")
async def test_settings_of_a_model_stay_as_they_were_and_a_runner_cannot_change_them() -> None:
    model_settings: dict[str, Any] = {"stop": ("a", ["b"]), "extra_body": {"tags": {"x"}}}
    presets = {"p": Preset(model_settings={"headers": model_settings})}
    block = Generator("g", uses=[Capability("c", model_settings=model_settings, presets=presets)])
    model_settings["stop"][1].append("z")
    model_settings["extra_body"]["tags"].add("z")
    runner = ScriptedRunner({"g": [Say("one"), Say("two")]})
    expected: dict[str, Any] = {"stop": ("a", ["b"]), "extra_body": {"tags": {"x"}}}
    expected |= {"headers": expected.copy()}
    for _ in range(2):
        await run(block, runner=runner)
        settings = runner.steps[-1].model_settings
        assert settings == expected
        settings["extra_body"]["tags"].add("y")
    assert compose(block).merged.model_settings == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Capability("c", model_settings={"lock": Lock()}), "capability 'c': model_settings: 'lock'"),
        (lambda: Agent("a", static_context={"lock": [Lock()]}), "agent 'a': static_context: 'lock'"),
        (lambda: Resource("r", object, scope="session", default=Lock()), "resource 'r': its default"),
    ],
)
def test_what_cannot_be_copied_is_refused_by_its_name(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DefinitionError, match=f"{message} cannot be copied"):
        make()


@pytest.mark.spec("K4")
@pytest.mark.parametrize("kind", [type[int], list[type[Box]], type[int] | None, dict[str, type[BaseModel]]])
def test_a_class_is_no_argument_and_no_result(kind: Any) -> None:
    def takes(which: Any) -> int:
        """Take."""
        return 1

    def gives() -> Any:
        """Give."""

    takes.__annotations__["which"] = gives.__annotations__["return"] = kind
    for function, place in ((takes, "parameter 'which'"), (gives, "its return type")):
        with pytest.raises(DefinitionError, match=f"{place}: JSON has no classes"):
            tool(function)
    with pytest.raises(DefinitionError, match="JSON has no classes"):
        Resource("r", kind, scope="session")

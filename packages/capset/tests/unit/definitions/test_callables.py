from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import Field

from capset import Agent, Capability, Context, DefinitionError, Policy, Progress, Reply, Request, tool
from capset.definitions.tools.definition import AnyTool
from capset.errors import InvalidArguments
from capset.flows import Handler
from tests.helpers.flows.support import run
from tests.helpers.kernel.support import opened


def find(ctx: Context, place: str, count: int = 2, *, deep: bool = False) -> str:
    """Find something.

    Args:
        place: where.
        count: how many.
        deep: everywhere.
    """
    return f"{place} {count} {deep} {ctx.principal.id}"


async def wait(place: str, word: str) -> str:
    """Wait."""
    return f"{place} {word}"


async def call(definition: AnyTool, **arguments: Any) -> Any:
    async with opened(Agent("a", tools=[definition])) as desk:
        return await desk.session.call(definition, **arguments)


class Service:
    """A service."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __call__(self, ctx: Context, count: int) -> str:
        return f"called {self.place} {count} {ctx.principal.id}"

    async def search(self, ctx: Context, count: int) -> str:
        """Search."""
        return f"searched {self.place} {count}"

    @classmethod
    def of_class(cls, count: int) -> str:
        """Ask the class."""
        return f"{cls.__name__} {count}"

    @staticmethod
    def alone(count: int) -> str:
        """Ask nobody."""
        return f"{count}"


class Waiting:
    async def __call__(self, count: int) -> str:
        """Wait for something."""
        return f"waited {count}"


class Telling:
    async def __call__(self, count: int) -> AsyncIterator[Progress | Reply[str]]:
        """Tell."""
        yield Progress(1 / count)
        yield Reply(f"told {count}")


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("definition", "description", "arguments", "result"),
    [
        (tool(name="t")(partial(find, count=5)), "Find something.", {"place": "x", "deep": True}, "x 5 True user-1"),
        (tool(name="t")(partial(partial(wait, "here"), word="now")), "Wait.", {}, "here now"),
        (tool(name="t", description="Call.")(partial(Service("x"), count=3)), "Call.", {}, "called x 3 user-1"),
        (tool(name="t")(Service("x")), "A service.", {"count": 1}, "called x 1 user-1"),
        (tool(Service("x").search), "Search.", {"count": 2}, "searched x 2"),
        (tool(Service.of_class), "Ask the class.", {"count": 2}, "Service 2"),
        (tool(Service.alone), "Ask nobody.", {"count": 2}, "2"),
        (tool(name="t")(Waiting()), "Wait for something.", {"count": 4}, "waited 4"),
        (tool(name="t")(Telling()), "Tell.", {"count": 5}, "told 5"),
    ],
)
async def test_a_partial_a_method_or_an_object_is_a_tool(
    definition: AnyTool, description: str, arguments: dict[str, Any], result: str
) -> None:
    assert definition.description == description
    assert set(definition.parameters) == set(definition.arguments.names) == set(arguments)
    assert await call(definition, **arguments) == result


@pytest.mark.spec("K4")
async def test_a_model_cannot_change_what_a_partial_has_bound() -> None:
    with pytest.raises(InvalidArguments):
        await call(tool(name="t")(partial(find, count=5)), place="x", count=9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tool(partial(find, count=5)), "has no name of its own"),
        (lambda: tool(Waiting()), "has no name of its own"),
        (lambda: tool(Service.search), "parameter 'self' needs a type annotation"),
        (lambda: tool(vars(Service)["of_class"]), "@tool takes a function; got <classmethod"),
        (lambda: tool(name="t")(partial(Service, "x")), "a handler is a function"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


@pytest.mark.spec("C37")
@pytest.mark.parametrize("function", [Waiting(), Waiting().__call__, partial(Waiting())])
async def test_a_step_waits_for_an_object_that_is_async(function: Any) -> None:
    assert await run(Handler("waiting", function), 3) == "waited 3"


class Approval:
    async def __call__(self, ctx: Any) -> Any:
        return True


@pytest.mark.spec("C27", "C30")
def test_what_must_not_wait_is_refused_behind_an_object_and_a_partial_too() -> None:
    wrongs: list[Any] = [Approval(), partial(Approval()), Approval().__call__]
    for wrong in wrongs:
        with pytest.raises(DefinitionError, match="helpers must be a plain function"):
            Capability("c", helpers=wrong)
        with pytest.raises(DefinitionError, match="must be a plain function, not an async one"):
            Capability("c", uses=wrong)


@pytest.mark.spec("F15")
async def test_an_object_and_a_partial_are_policies_and_are_awaited() -> None:
    async def decides(level: int, request: Request) -> bool:
        return level > 2

    @tool(policies=[Policy("object", Approval()), Policy("partial", partial(decides, 3))])
    def work() -> str:
        """Work."""
        return "done"

    assert await call(work) == "done"


@pytest.mark.spec("K4")
async def test_a_field_as_a_default_describes_the_parameter() -> None:
    @tool
    def paged(
        size: int = Field(gt=0, description="how many"),
        page: int = Field(1, ge=1),
        marks: list[str] = Field(default_factory=lambda: ["a"]),  # noqa: B008  # as in pydantic's models
        word: Annotated[str, Field(min_length=2)] = Field("ab", max_length=3),
    ) -> str:
        """Page.

        Args:
            size: not shown, since the field says more.
            page: which one.
        """
        return f"{size} {page} {marks} {word}"

    assert paged.arguments.json_schema == {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "exclusiveMinimum": 0, "description": "how many"},
            "page": {"type": "integer", "minimum": 1, "default": 1, "description": "which one."},
            "marks": {"type": "array", "items": {"type": "string"}},
            "word": {"type": "string", "minLength": 2, "maxLength": 3, "default": "ab"},
        },
        "required": ["size"],
        "additionalProperties": False,
    }
    assert await call(paged, size=2) == "2 1 ['a'] ab"
    for wrong in ({"size": 0}, {}, {"size": 1, "page": 0}, {"size": 1, "word": "abcd"}):
        with pytest.raises(InvalidArguments):
            await call(paged, **wrong)


@pytest.mark.parametrize(
    ("field", "message"),
    [(Field(alias="n"), "an alias would be another name"), (Field(0, gt=0), "its default does not fit")],
)
def test_a_field_that_cannot_be_meant_is_refused(field: Any, message: str) -> None:
    def search(size: int = field) -> int:
        """Search."""
        return size

    with pytest.raises(DefinitionError, match=message):
        tool(search)

"""What may stand for a function: partials, methods and objects, which work or are refused in words (spec 3, K4)."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from pydantic import Field

from capset import Agent, Capability, Context, DefinitionError, Policy, Progress, Reply, Request, Tool, tool
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


TOOLS: dict[str, tuple[Tool[..., str], dict[str, Any], str]] = {
    "Find something.": (
        tool(name="t")(functools.partial(find, count=5)), {"place": "x", "deep": True}, "x 5 True user-1",
    ),
    "Wait.": (tool(name="t")(functools.partial(functools.partial(wait, "here"), word="now")), {}, "here now"),
    "Call it.": (
        tool(name="t", description="Call it.")(functools.partial(Service("x"), count=3)), {}, "called x 3 user-1",
    ),
    "A service.": (tool(name="t")(Service("x")), {"count": 1}, "called x 1 user-1"),
    "Search.": (tool(Service("x").search), {"count": 2}, "searched x 2"),
    "Ask the class.": (tool(Service.of_class), {"count": 2}, "Service 2"),
    "Ask nobody.": (tool(Service.alone), {"count": 2}, "2"),
    "Wait for something.": (tool(name="t")(Waiting()), {"count": 4}, "waited 4"),
    "Tell.": (tool(name="t")(Telling()), {"count": 5}, "told 5"),
}  # fmt: skip


@pytest.mark.spec("K4")
@pytest.mark.parametrize("description", TOOLS)
async def test_a_partial_a_method_or_an_object_is_a_tool(description: str) -> None:
    definition, arguments, gives = TOOLS[description]
    assert definition.description == description
    assert set(definition.parameters) == set(definition.arguments.names) == set(arguments)
    async with opened(Agent("a", tools=[definition])) as desk:
        assert await desk.session.call(definition, **arguments) == gives


@pytest.mark.spec("K4")
async def test_a_model_cannot_change_what_a_partial_has_bound() -> None:
    definition = tool(name="t")(functools.partial(find, count=5))
    async with opened(Agent("a", tools=[definition])) as desk:
        refused = await desk.session.try_message(desk.session.message("t", {"place": "x", "count": 9}))
        assert refused.error is not None
        assert refused.error.code == "invalid_arguments"


@pytest.mark.parametrize(
    ("make", "message", "hint"),
    [
        (lambda: tool(functools.partial(find, count=5)), "has no name of its own", "tool(name='search')"),
        (lambda: tool(Waiting()), "has no name of its own", "tool(name='search')"),
        (lambda: tool(Service.search), "parameter 'self' needs a type annotation", "tool(service.search)"),
        (lambda: tool(vars(Service)["of_class"]), "@tool takes a function; got <classmethod", "tool(Service.search)"),
        (lambda: tool(name="t")(functools.partial(Service, "x")), "a handler is a function", "write a function"),
    ],
    ids=["partial", "object", "unbound", "classmethod", "class"],
)
def test_what_cannot_be_a_tool_is_refused_with_what_to_write(make: Any, message: str, hint: str) -> None:
    with pytest.raises(DefinitionError, match=message) as refused:
        make()
    assert hint in str(refused.value.hint)


@pytest.mark.spec("C37")
@pytest.mark.parametrize("function", [Waiting(), Waiting().__call__, functools.partial(Waiting())], ids=type)
async def test_a_step_waits_for_an_object_that_is_async(function: Any) -> None:
    assert await run(Handler("waiting", function), 3) == "waited 3"


class Asked:
    async def __call__(self, ctx: Any) -> Any:
        return True


@pytest.mark.spec("C27", "C30")
def test_what_must_not_wait_is_refused_behind_an_object_and_a_partial_too() -> None:
    several: list[Any] = [Asked(), functools.partial(Asked()), Asked().__call__]
    for wrong in several:
        with pytest.raises(DefinitionError, match="helpers must be a plain function"):
            Capability("c", helpers=wrong)
        with pytest.raises(DefinitionError, match="must be a plain function, not an async one"):
            Capability("c", uses=wrong)


@pytest.mark.spec("F15")
async def test_an_object_and_a_partial_are_policies_and_are_awaited() -> None:
    async def decides(level: int, request: Request) -> bool:
        return level > 2

    @tool(policies=[Policy("object", Asked()), Policy("partial", functools.partial(decides, 3))])
    def work() -> str:
        """Work."""
        return "done"

    async with opened(Agent("a", tools=[work])) as desk:
        assert await desk.session.call(work) == "done"


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
    async with opened(Agent("a", tools=[paged])) as desk:
        assert await desk.session.call(paged, size=2) == "2 1 ['a'] ab"
        for wrong in ({"size": 0}, {}, {"size": 1, "page": 0}, {"size": 1, "word": "abcd"}):
            refused = await desk.session.try_message(desk.session.message("paged", wrong))
            assert refused.error is not None
            assert refused.error.code == "invalid_arguments"


def test_a_field_that_cannot_be_meant_is_refused() -> None:
    def aliased(size: int = Field(alias="n")) -> int:
        """Alias."""
        return size

    def unfit(size: int = Field(0, gt=0)) -> int:
        """Fit."""
        return size

    for wrong, message in ((aliased, "an alias would be another name"), (unfit, "its default does not fit")):
        with pytest.raises(DefinitionError, match=message):
            tool(wrong)

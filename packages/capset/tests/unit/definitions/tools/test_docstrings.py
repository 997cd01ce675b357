from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from capset import Context, DefinitionError, tool

SUMMARY = "Read a file.\n\nIt must be there,\nas text."
GOOGLE = """
    Args:
        path: where it is,
            absolute
        limit (int, optional): how many lines

    Returns:
        The lines.

    Raises:
        ToolError: if there is none.
    """
NUMPY = """
    Parameters
    ----------
    path : str
        where it is,
        absolute
    limit : int, optional
        how many lines

    Returns
    -------
    list
        The lines.
    """
REST = """
    :param path: where it is,
        absolute
    :param int limit: how many lines
    :returns: The lines.
    :raises ToolError: if there is none.
    """


def above(sections: str) -> str:
    return SUMMARY.replace("\n", "\n    ") + "\n" + sections


def documented(docstring: str | None, **more: Any) -> Any:
    async def read(ctx: Context, path: str, limit: int = 10) -> list[str]:
        return [path] * limit

    read.__doc__ = docstring
    return tool(**more)(read)


def described(definition: Any) -> dict[str, str | None]:
    return {name: field.get("description") for name, field in definition.arguments.json_schema["properties"].items()}


@pytest.mark.spec("K4")
@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_each_usual_style_is_read(docstring: str) -> None:
    definition = documented(above(docstring))
    assert definition.description == SUMMARY
    assert described(definition) == {"path": "where it is, absolute", "limit": "how many lines"}


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    "text",
    [
        "Read \u65e5\u672c \U0001f600. Cheap: yes, and (a: b) too.",
        "Read a file.\n\nFirst this.\n\n* one\n* two: three\n\nThen that.",
        "Read a file.\n\nSuch as:\n\n    indented code",
        "Read a file.\nSecond line: it says more.\n\n\nThird, far below.",
    ],
)
def test_a_docstring_without_sections_is_shown_word_for_word(text: str) -> None:
    definition = documented("\n    ".join(text.splitlines()))
    assert definition.description == text
    assert described(definition) == {"path": None, "limit": None}


@pytest.mark.spec("K4")
def test_a_description_above_sections_keeps_its_lines() -> None:
    definition = documented("Read a file,\nall of it.\n\nArgs:\n    path: where")
    assert definition.description == "Read a file,\nall of it."
    assert described(definition) == {"path": "where", "limit": None}


@pytest.mark.spec("K4")
def test_a_description_is_shown_word_for_word_and_the_parameters_from_the_docstring() -> None:
    definition = documented(above(GOOGLE), description="  Read it: now.\n\nArgs: none. ")
    assert definition.description == "  Read it: now.\n\nArgs: none. "
    assert described(definition) == {"path": "where it is, absolute", "limit": "how many lines"}
    assert documented(None, description="Read.").description == "Read."


@pytest.mark.spec("K4", "G5")
@pytest.mark.parametrize("docstring", [None, "", "  \n \n", ":param path: where it is\n:param limit: how many"])
def test_a_tool_that_says_nothing_of_itself_is_refused(docstring: str | None) -> None:
    with pytest.raises(DefinitionError, match="tool 'read' needs a docstring"):
        documented(docstring)


@pytest.mark.spec("K4")
@pytest.mark.parametrize("description", ["", " \n", 5, "\ud800"])
def test_an_empty_or_unreadable_description_is_refused_rather_than_replaced(description: Any) -> None:
    with pytest.raises(DefinitionError, match="tool 'read'"):
        documented("Read.", description=description)


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_a_description_of_no_parameter_is_refused_by_its_name(docstring: str) -> None:
    with pytest.raises(DefinitionError, match="tool 'read': the docstring describes 'paht', which is not a parameter"):
        documented(above(docstring.replace("path", "paht")))


def test_the_context_may_be_described_and_is_not_shown() -> None:
    definition = documented("Read.\n\nArgs:\n    ctx: the world\n    path: where")
    assert described(definition) == {"path": "where", "limit": None}


def test_a_description_in_the_annotation_wins_over_the_docstring() -> None:
    @tool
    def add(a: Annotated[int, Field(ge=1, description="by the annotation")], b: Annotated[int, Field(ge=2)]) -> int:
        """Add.

        Args:
            a: by the docstring
            b: by the docstring
        """
        return a + b

    assert described(add) == {"a": "by the annotation", "b": "by the docstring"}
    assert [field["minimum"] for field in add.arguments.json_schema["properties"].values()] == [1, 2]


def test_a_docstring_is_inherited_like_any_other() -> None:
    class Base:
        def act(self, a: int) -> int:
            """Act as the base says."""
            return a

    class Derived(Base):
        def act(self, a: int) -> int:
            return a

    handler: Callable[[int], int] = Derived().act
    assert tool(handler).description == "Act as the base says."

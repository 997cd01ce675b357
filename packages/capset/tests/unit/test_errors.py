from __future__ import annotations

import inspect
import pickle
import re
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import errors
from capset.errors import (
    CapsetError,
    ConcurrentModificationError,
    DefinitionError,
    Field,
    FileError,
    NotFound,
    ToolError,
    closest,
    counted,
    refuse_unknown_keys,
    unknown,
)

TREE = [
    error_class
    for error_class in vars(errors).values()
    if inspect.isclass(error_class) and issubclass(error_class, CapsetError)
]
LINE = re.compile(r"^(?P<indent>(?:[│ ] {3})*)(?P<branch>[├└]── )?(?P<name>[A-Z]\w+) +(?P<status>\d{3}|code,)")


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn: dict[str, tuple[str | None, str]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := LINE.match(line.removeprefix("    ")):
            depth = len(match["indent"]) // 4 + bool(match["branch"])
            above[depth:] = [match["name"]]
            drawn[match["name"]] = above[depth - 1] if depth else None, match["status"]
    assert drawn == {
        error_class.__name__: (None, "code,")
        if error_class is CapsetError
        else (error_class.__base__.__name__, str(error_class.status))
        for error_class in TREE
        if error_class.__base__ is not None
    }


@pytest.mark.spec("K2")
@pytest.mark.parametrize("error", TREE)
def test_every_error_has_a_code_and_a_status(error: type[CapsetError]) -> None:
    assert re.fullmatch("[a-z]+(_[a-z]+)*", error.code)
    assert 400 <= error.status <= 599
    assert [error_class.code for error_class in TREE].count(error.code) == 1


@pytest.mark.spec("G4")
def test_a_refusal_is_told_apart_from_a_failure() -> None:
    refusals = {
        *("Unauthenticated", "NotFound", "PermissionDenied", "InvalidArguments", "ArgumentsTooLarge"),
        *("ApprovalRequired", "ApprovalRejected", "ApprovalExpired", "ApprovalVoid"),
        *("LimitExceeded", "BudgetExceeded", "NoFreeSlot", "TooManyRefusals"),
    }
    assert {error_class.__name__ for error_class in TREE if error_class.refusal} == refusals
    retryable = {
        "Cancelled",
        "ConcurrentModificationError",
        "ConsumerTimeout",
        "DeadlineExceeded",
        "LimitExceeded",
        "NoFreeSlot",
        "StoreBusy",
        "StoreError",
        "TooManyRefusals",
        "TransientError",
        "Unreachable",
    }
    assert {error_class.__name__ for error_class in TREE if error_class.retryable} == retryable


def test_an_error_keeps_what_it_is_told() -> None:
    field = Field("a.b", "required, but missing", "a.c")
    error = NotFound("no such thing", hint="look elsewhere", fields=iter([field]), correlation="c-1")
    assert (str(error), error.message) == ("no such thing", "no such thing")
    assert (error.hint, error.fields, error.correlation) == ("look elsewhere", (field,), "c-1")
    restored = pickle.loads(pickle.dumps(error))
    assert (type(restored), str(restored), restored.hint, restored.fields) == (
        NotFound,
        "no such thing",
        error.hint,
        error.fields,
    )
    tried = pickle.loads(pickle.dumps(ConcurrentModificationError("busy", attempts=9, hint="again")))
    assert (str(tried), tried.attempts, tried.hint) == ("busy", 9, "again")


def test_a_field_is_told_in_one_line() -> None:
    assert str(Field("a.0", "an integer")) == "a.0: an integer"
    assert str(Field("paht", "no such parameter", "path")) == "paht: no such parameter (did you mean 'path'?)"


@pytest.mark.spec("K2")
@pytest.mark.parametrize("kind", [ToolError, FileError])
def test_a_handler_may_choose_code_and_status(kind: type[ToolError]) -> None:
    error = kind("full", code="disk_full", status=507, hint="make room")
    assert (error.code, error.status, error.hint) == ("disk_full", 507, "make room")
    assert (kind.status, kind("x").status) == (400, 400)
    assert {kind("x", status=status).status for status in (400, 599)} == {400, 599}


@pytest.mark.spec("K2")
@pytest.mark.parametrize("wrong", [0, 200, 399, 600, True, "400", 400.5])
def test_another_status_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="status lies in 400–599"):
        ToolError("x", status=wrong)


@pytest.mark.spec("K2")
@pytest.mark.parametrize("wrong", ["", "Disk full", "disk-full", "DISK", "1st", "disk_full\n", "é"])
def test_another_code_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="code is snake_case"):
        ToolError("x", code=wrong)


@pytest.mark.parametrize(
    ("name", "candidates", "meant"),
    [
        ("exprot", ["export", "import"], "export"),
        ("Export", ["export"], "export"),
        ("zzz", ["export"], None),
        ("x", [], None),
        ("", ["a"], None),
    ],
)
def test_the_closest_name(name: str, candidates: list[str], meant: str | None) -> None:
    assert closest(name, iter(candidates)) == meant


def test_a_tool_is_not_taken_for_another_one_of_its_source() -> None:
    names = ["books_lend", "books_list", "my_books_get_title"]
    assert unknown("tool", "books_lent", names) == "unknown tool 'books_lent'; did you mean 'books_lend'?"
    assert unknown("tool", "books_title", ["books_lend"]) == "unknown tool 'books_title'; there is: books_lend"
    assert unknown("tool", "book_lend", names) == "unknown tool 'book_lend'; did you mean 'books_lend'?"
    assert unknown("tool", "my_books_get_titel", names).endswith("did you mean 'my_books_get_title'?")
    assert unknown("tool", "mcp:books.title", ["mcp:books.lend"]).endswith("there is: mcp:books.lend")


def test_an_unknown_name_is_told_with_what_was_meant_or_what_there_is() -> None:
    assert unknown("tool", "exprot", ["export", "a"]) == "unknown tool 'exprot'; did you mean 'export'?"
    assert unknown("tool", "zzz", ["b", "a"]) == "unknown tool 'zzz'; there is: a, b"
    assert unknown("tool", "zzz", []) == "unknown tool 'zzz'; there is: none"
    many = [f"tool{number:02}" for number in range(13)]
    assert unknown("thing", "zzz", many) == f"unknown thing 'zzz'; there is: {', '.join(many[:12])}, …"


@settings(deadline=None)
@given(st.text(), st.lists(st.text()))
def test_a_name_that_was_meant_is_a_known_one(name: str, candidates: list[str]) -> None:
    meant = closest(name, candidates)
    assert meant is None or meant in candidates
    if name and name in candidates:
        assert meant == name


def test_a_name_of_megabytes_is_compared_with_none() -> None:
    began = process_time()
    assert closest("x" * 10_000_000, ["name", "uses"]) is None
    assert process_time() - began < 0.5


@pytest.mark.spec("G7")
def test_unknown_keys_are_refused() -> None:
    refuse_unknown_keys("file", {"name": 1}, iter(["name", "uses"]))
    with pytest.raises(DefinitionError, match="file: unknown field 'usse'; did you mean 'uses'"):
        refuse_unknown_keys("file", {"name": 1, "usse": 2}, iter(["name", "uses"]))
    keys_of_yaml: Any = {None: 1}
    with pytest.raises(DefinitionError, match="file: unknown field 'None'; there is: name"):
        refuse_unknown_keys("file", keys_of_yaml, ["name"])


@pytest.mark.parametrize(("number", "expected"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_a_number_has_its_noun_in_the_singular_or_plural(number: int, expected: str) -> None:
    assert counted(number, "record") == expected

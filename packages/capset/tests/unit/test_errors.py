from __future__ import annotations

import inspect
import pickle
import re
from time import process_time
from typing import Any

import pytest
from hypothesis import given
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

TREE = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, CapsetError)]


def test_the_documented_tree_has_every_error_with_its_status() -> None:
    documented = dict(re.findall(r"── (\w+) +(\d{3})", errors.__doc__ or ""))
    assert documented == {error.__name__: str(error.status) for error in TREE if error is not CapsetError}


@pytest.mark.spec("K2")
@pytest.mark.parametrize("error", TREE)
def test_every_error_has_a_code_and_a_status(error: type[CapsetError]) -> None:
    assert re.fullmatch("[a-z]+(_[a-z]+)*", error.code)
    assert 400 <= error.status <= 599
    assert [error_class.code for error_class in TREE].count(error.code) == 1


@pytest.mark.spec("G4")
def test_a_refusal_is_told_apart_from_a_failure() -> None:
    assert {error_class.__name__ for error_class in TREE if error_class.refusal} == {
        *("Unauthenticated", "NotFound", "PermissionDenied", "InvalidArguments", "ArgumentsTooLarge"),
        *("ApprovalRequired", "ApprovalRejected", "ApprovalExpired", "ApprovalVoid"),
        "ConnectionRequired",
        *("LimitExceeded", "BudgetExceeded", "NoFreeSlot", "TooManyRefusals"),
    }
    assert {error_class.__name__ for error_class in TREE if error_class.retryable} == {
        *("Cancelled", "ConcurrentModificationError", "ConsumerTimeout", "DeadlineExceeded", "LimitExceeded"),
        *("NoFreeSlot", "StoreBusy", "StoreError", "TooManyRefusals", "TransientError", "Unreachable"),
    }


def test_an_error_keeps_what_it_is_told() -> None:
    field = Field("a.b", "required, but missing", "a.c")
    error = NotFound("no such thing", hint="look elsewhere", fields=iter([field]), correlation="c-1")
    assert (str(error), error.message, error.correlation) == ("no such thing", "no such thing", "c-1")
    for kept in (error, pickle.loads(pickle.dumps(error))):
        assert (type(kept), str(kept), kept.hint, kept.fields) == (NotFound, str(error), "look elsewhere", (field,))
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
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *(("status", wrong) for wrong in (0, 200, 399, 600, True, "400", 400.5)),
        *(("code", wrong) for wrong in ("", "Disk full", "disk-full", "DISK", "1st", "disk_full\n", "é")),
    ],
)
def test_another_status_or_code_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"{field} (lies in 400–599|is snake_case)"):
        ToolError("x", **{field: wrong})


def test_the_closest_name() -> None:
    assert closest("exprot", iter(["export", "import"])) == closest("Export", iter(["export"])) == "export"
    assert [closest("zzz", ["export"]), closest("x", []), closest("", ["a"])] == [None] * 3


def test_a_tool_is_not_taken_for_another_one_of_its_source() -> None:
    names = ["books_lend", "books_list", "my_books_get_title"]
    assert unknown("tool", "books_lent", names) == "unknown tool 'books_lent'; did you mean 'books_lend'?"
    assert unknown("tool", "books_title", ["books_lend"]) == "unknown tool 'books_title'; available: books_lend"
    assert unknown("tool", "book_lend", names) == "unknown tool 'book_lend'; did you mean 'books_lend'?"
    assert unknown("tool", "my_books_get_titel", names).endswith("did you mean 'my_books_get_title'?")
    assert unknown("tool", "mcp:books.title", ["mcp:books.lend"]).endswith("available: mcp:books.lend")


def test_an_unknown_name_is_told_with_what_was_meant_or_what_there_is() -> None:
    assert unknown("tool", "exprot", ["export", "a"]) == "unknown tool 'exprot'; did you mean 'export'?"
    assert unknown("tool", "zzz", ["b", "a"]) == "unknown tool 'zzz'; available: a, b"
    assert unknown("tool", "zzz", []) == "unknown tool 'zzz'; available: none"
    many = [f"tool{number:02}" for number in range(13)]
    assert unknown("thing", "zzz", many) == f"unknown thing 'zzz'; available: {', '.join(many[:12])}, …"


@given(st.text(), st.lists(st.text()))
def test_a_name_that_was_meant_is_a_known_one(name: str, candidates: list[str]) -> None:
    assert closest(name, candidates) in (None, *candidates)
    assert not name or closest(name, [*candidates, name]) == name


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
    with pytest.raises(DefinitionError, match="file: unknown field 'None'; available: name"):
        refuse_unknown_keys("file", keys_of_yaml, ["name"])


def test_a_number_has_its_noun_in_the_singular_or_plural() -> None:
    assert [counted(number, "record") for number in range(3)] == ["0 records", "1 record", "2 records"]

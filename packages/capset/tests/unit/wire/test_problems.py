"""Problem details (RFC 9457), and the shapes of what is kept."""

from __future__ import annotations

import pytest

from capset.definitions.calls.files import FileStat
from capset.errors import CapsetError, Field, InvalidArguments, NotFound, StoreError, ToolError
from capset.stores.base import KeyRow
from capset.wire.errors import Problem, problem_of
from capset.wire.operations import key_shape, new_key_shape
from capset.wire.sessions import file_shape
from capset_testing.store_suite.support import NOW

KEY = KeyRow("k", "ci", "d" * 64, None, "bot", "agent", ("a:b",), ("capset:read",), NOW)


@pytest.mark.spec("G24", "P14")
@pytest.mark.parametrize(
    ("error", "title"),
    [
        (NotFound("there is no agent 'x'"), "Not Found"),
        (StoreError("busy"), "Service Unavailable"),
        (ToolError("no", code="odd", status=499), "Error"),
        (CapsetError("failed"), "Internal Server Error"),
    ],
)
def test_an_error_is_told_by_its_code_status_and_words(error: CapsetError, title: str) -> None:
    body = problem_of(error, "c-1").plain()
    about = {"status": error.status, "detail": error.message, "code": error.code, "retryable": error.retryable}
    assert body == {"type": f"urn:capset:error:{error.code}", "title": title, "correlation": "c-1", **about}
    assert Problem.model_validate(body).plain() == body


@pytest.mark.spec("G24")
def test_every_field_that_does_not_fit_is_listed() -> None:
    error = InvalidArguments("Invalid agent", fields=[Field("tags.0", "text"), Field("nmae", "no such", "name")])
    assert problem_of(error, "c").plain()["fields"] == [
        {"path": "tags.0", "expected": "text"},
        {"path": "nmae", "expected": "no such", "did_you_mean": "name"},
    ]


@pytest.mark.spec("P14")
def test_a_key_is_told_without_what_opens_with_it() -> None:
    shape = key_shape(KEY).plain()
    assert not {"digest", "key"} & shape.keys()
    assert KEY.digest not in str(shape)
    assert new_key_shape(KEY, "capset_x").plain() == {**shape, "key": "capset_x"}


def test_a_file_has_its_name() -> None:
    shape = file_shape(FileStat("/a/b.txt", False, 3, 1, NOW, NOW))
    assert (shape.path, shape.name, shape.size_bytes, shape.is_readonly) == ("/a/b.txt", "b.txt", 3, False)

"""Errors come out of the wire as what they went in."""

from __future__ import annotations

import inspect

import pytest

from capset import errors
from capset.errors import ApprovalRequired, CapsetError, Field, InvalidArguments, LimitExceeded, ToolError
from capset.wire.calls import CallShape
from capset.wire.errors import Problem, error_shape, problem_of
from capset_server.client import data_of, error_of

TREE = [member for member in vars(errors).values() if inspect.isclass(member) and issubclass(member, CapsetError)]


@pytest.mark.parametrize("kind", TREE)
def test_every_error_comes_back_as_it_was(kind: type[CapsetError]) -> None:
    error = kind("no such thing", fields=[Field("a.b", "an integer", "a.c"), Field("d", "text")])
    problem = Problem.model_validate_json(problem_of(error, "c-1").model_dump_json())
    error.correlation = "c-1"
    for shape in (problem, error_shape(error)):
        rebuilt = error_of(shape)
        assert type(rebuilt) is kind
        assert vars(rebuilt) == {**vars(error), "code": kind.code, "status": kind.status, "retryable": kind.retryable}
        assert str(rebuilt) == "no such thing"


@pytest.mark.spec("G24")
def test_when_to_come_back_and_what_to_have_approved_come_back_too() -> None:
    for error, name, value in (
        (LimitExceeded("too often", retry_after=1.25), "retry_after", 1.25),
        (ApprovalRequired("somebody has to approve it", approval="a-1"), "approval", "a-1"),
    ):
        for shape in (error_shape(error), Problem.model_validate_json(problem_of(error, "c").model_dump_json())):
            rebuilt = error_of(shape)
            assert (type(rebuilt), getattr(rebuilt, name)) == (type(error), value)


def test_what_is_said_of_one_error_counts_more_than_its_class() -> None:
    shape = error_shape(errors.NotFound("gone"))
    rebuilt = error_of(shape.model_copy(update={"status": 410, "retryable": True}))
    assert (type(rebuilt), rebuilt.status, rebuilt.retryable) == (errors.NotFound, 410, True)
    assert (errors.NotFound.status, errors.NotFound.retryable) == (404, False)


def test_a_code_that_nobody_knows_is_a_general_error() -> None:
    rebuilt = error_of(error_shape(ToolError("come back later", code="too_fast", status=429)))
    assert (type(rebuilt), rebuilt.message) == (CapsetError, "come back later")
    assert (rebuilt.code, rebuilt.status, rebuilt.refusal) == ("too_fast", 429, False)


def test_the_data_of_a_call_or_its_error() -> None:
    shape = CallShape(success=True, data=None, record="r", session="s", runtime_hash="h", prompt_hash="h")
    assert data_of(shape) is None
    assert data_of(shape.model_copy(update={"data": [1]})) == [1]
    failed = shape.model_copy(update={"success": False, "error": error_shape(InvalidArguments("no", correlation="c"))})
    with pytest.raises(InvalidArguments) as caught:
        data_of(failed)
    assert caught.value.correlation == "c"

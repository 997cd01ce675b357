"""How verdicts are compared with those of the JSON-Schema-Test-Suite, on a suite of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.corpus.schemas import DRAFTS, judge, refers_elsewhere, report

DIALECT = DRAFTS["draft2020-12"]


def group(schema: Any, *tests: tuple[Any, bool]) -> dict[str, Any]:
    cases = [{"description": json.dumps(data), "data": data, "valid": valid} for data, valid in tests]
    return {"description": "a schema", "schema": schema, "tests": cases}


def suite(folder: Path, *groups: dict[str, Any]) -> Path:
    (folder / "draft2020-12").mkdir()
    (folder / "draft2020-12" / "own.json").write_text(json.dumps(groups))
    return folder / "draft2020-12"


def test_verdicts_are_the_same_for_schemas_and_booleans(tmp_path: Path) -> None:
    integers = group({"type": "integer"}, (1, True), (1.0, True), ("a", False))
    tests = list(judge(suite(tmp_path, integers, group(True, ("a", True)), group(False, ("a", False)))))
    assert [(test.verdict, test.is_remote) for test in tests] == [("same", False)] * 5
    assert report(tests, least=5)
    assert not report(tests, least=6)


def test_what_refers_elsewhere_may_be_refused_and_nothing_else(tmp_path: Path) -> None:
    remote = group({"$ref": "http://localhost:1234/integer.json"}, (1, True))
    tests = list(judge(suite(tmp_path, group({"type": "null"}, (None, True)), remote)))
    assert [(test.verdict, test.is_remote) for test in tests] == [("same", False), ("refused", True)]
    assert report(tests, least=1)
    assert not report([test._replace(is_remote=False) for test in tests], least=1)


def test_a_verdict_that_differs_is_enough_to_fail(tmp_path: Path) -> None:
    tests = list(judge(suite(tmp_path, group({"type": "integer"}, ("a", True), (1, False)))))
    assert [test.verdict for test in tests] == ["different", "different"]
    assert not report(tests, least=1)


@pytest.mark.parametrize(
    ("schema", "is_elsewhere"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, False),
        ({"$id": "http://a.example/b", "$ref": "c", "$defs": {"c": {"$id": "c"}}}, False),
        ({"$id": "http://a.example/b", "$ref": "/b#x"}, False),
        ({"$id": "urn:uuid:1", "$ref": "urn:uuid:1#/$defs/a", "$defs": {"a": {"$ref": "#"}}}, False),
        ({"properties": {"$ref": {"type": "string"}}}, False),
        ({"items": {"$ref": "other.json#/a"}}, True),
        ({"$ref": DIALECT}, True),
        ({"$schema": "http://localhost:1234/own-dialect"}, True),
        (True, False),
    ],
    ids=str,
)
def test_a_reference_is_elsewhere_if_nothing_inside_has_its_name(schema: Any, is_elsewhere: bool) -> None:
    assert refers_elsewhere(schema, DIALECT) is is_elsewhere

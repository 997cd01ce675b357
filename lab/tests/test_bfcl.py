"""How BFCL's possible answers become calls, on documents and answers of our own (spec 8, W23)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from capset_connect.interop import read_tools
from lab.bfcl.calls import calls_of
from lab.bfcl.documents import ROOT, Answer

DOCUMENT: dict[str, Any] = {
    "name": "trip.book",
    "description": "Book a trip.",
    "parameters": {
        "type": "dict",
        "properties": {
            "to": {"type": "string"},
            "price": {"type": "float"},
            "class": {"type": "string", "default": "economy"},
            "stops": {"type": "array", "items": {"type": "dict", "properties": {"at": {"type": "string"}}}},
            "options": {"type": "dict", "properties": {"meal": {"type": "boolean"}, "seat": {"type": "integer"}}},
        },
        "required": ["to", "price"],
    },
}


def calls(**values: list[Any]) -> tuple[list[dict[str, Any]], int]:
    (tool,) = read_tools(DOCUMENT).tools
    return calls_of(Answer("a", "f", DOCUMENT, values), tool.arguments)


@pytest.mark.spec("W23")
def test_one_value_at_a_time_stands_beside_the_first_of_all_others() -> None:
    expanded, passed = calls(to=["Rome", "Roma"], price=[1, 2.5], **{"class": ["first", ""]})
    assert expanded == [
        {"to": "Rome", "price": 1, "class": "first"},
        {"to": "Roma", "price": 1, "class": "first"},
        {"to": "Rome", "price": 2.5, "class": "first"},
        {"to": "Rome", "price": 1},
    ]
    assert passed == 0


@pytest.mark.spec("W23")
def test_an_empty_text_is_left_out_unless_the_document_requires_it() -> None:
    assert calls(to=[""], price=[1]) == ([{"to": "", "price": 1}], 0)
    assert calls(to=["Rome"], price=["", 1]) == ([{"to": "Rome", "price": 1}], 1)


@pytest.mark.spec("W23")
def test_members_of_objects_have_values_of_their_own() -> None:
    expanded, _ = calls(to=["Rome"], options=[{"meal": [True, ""], "seat": [1]}], stops=[[{"at": ["Pisa", "Siena"]}]])
    assert expanded == [
        {"to": "Rome", "options": {"meal": True, "seat": 1}, "stops": [{"at": "Pisa"}]},
        {"to": "Rome", "options": {"seat": 1}, "stops": [{"at": "Pisa"}]},
        {"to": "Rome", "options": {"meal": True, "seat": 1}, "stops": [{"at": "Siena"}]},
    ]


@pytest.mark.realtime
@pytest.mark.spec("W23")
def test_another_option_is_refused() -> None:
    command = [sys.executable, "-m", "lab.bfcl", "--all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "bfcl: the only option is --known; got --all\n")

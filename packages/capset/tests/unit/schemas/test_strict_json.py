"""JSON data from others, as text and as Python: taken strictly, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch


@pytest.mark.spec("G11", "K9")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"a": 1, "a": 1}', "(arguments): Invalid JSON: an object has a duplicate name"),
        (b'{"a": NaN}', "(arguments): Invalid JSON: NaN and infinities are not allowed"),
        (b'{"a": 1e999}', "a: Input should be a finite number"),
        (b'{"a": ["\\ud800"]}', "a.0: Input should have no lone surrogates"),
        (b'{"\\ud800": 1}', "(arguments): Input should have no lone surrogates"),
        (b"\xff", "(arguments): Input should be JSON text in UTF-8"),
        (b"\xef\xbb\xbf{}", "(arguments): Invalid JSON at line 1, column 1"),
        ("{}".encode("utf-16"), "(arguments): Input should be JSON text in UTF-8"),
        (b'{"a": secret}', "(arguments): Invalid JSON at line 1, column 7"),
        (b"", "(arguments): Invalid JSON at line 1, column 1"),
        (b"[" * 101 + b"]" * 101, "(arguments): Input should be nested at most 100 levels deep"),
        (b"[" * 200_000, "(arguments): Input should be nested at most 100 levels deep"),
        (b"9" * 5000, "(arguments): Input should have no integer of more than 4,000 digits"),
    ],
    ids=lambda param: param if isinstance(param, str) else type(param).__name__,
)
def test_json_text_is_parsed_strictly(text: bytes, expected: str) -> None:
    with pytest.raises(SchemaMismatch) as raised:
        compile_json_schema("it", {}).check_json(text)
    assert list(map(str, raised.value.fields)) == [expected]


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.spec("G11", "K9")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((number, "Input should be a finite number") for number in (float("nan"), float("inf"))),
        *((value, "Input should be JSON data") for value in ((1, 2), {1, 2}, b"secret", object())),
        (CIRCLE, "Input should be nested at most 100 levels deep"),
        ({1: 2}, "Input should have only strings as names of its fields"),
        ("\udfff", "Input should have no lone surrogates"),
        (10**4000, "Input should be an integer of at most 4,000 digits"),
    ],
    ids=lambda param: param if isinstance(param, str) else type(param).__name__,
)
def test_what_is_no_json_data_fits_no_schema_and_has_no_form(value: Any, expected: str) -> None:
    schema = compile_json_schema("it", {})
    for form in (schema.check, schema.jsonable, schema.text):
        with pytest.raises(SchemaMismatch, match=expected) as raised:
            form({"a": [value]})
        assert [field.path for field in raised.value.fields] == ["a.0" if value is not CIRCLE else "(arguments)"]

"""Foreign schemas take what another validator of JSON Schema takes, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch
from tests.helpers.schemas.strategies import DATA, NAMES, SCHEMAS

REFERRING = st.dictionaries(NAMES, SCHEMAS, max_size=3).map(
    lambda targets: {
        "properties": {name: {"$ref": f"#/$defs/{name}"} for name in targets},
        "items": {"$ref": "#"},
        "additionalProperties": {"$ref": "#"},
        "$defs": targets,
    }
)


@pytest.mark.nightly
@pytest.mark.spec("K4", "K9")
@settings(deadline=None, max_examples=300)
@given(SCHEMAS | REFERRING, DATA)
def test_it_takes_what_another_validator_takes(schema: dict[str, Any], value: Any) -> None:
    foreign = compile_json_schema("it", schema)
    if Draft202012Validator(schema).is_valid(value):
        taken = foreign.check(value)
        assert (repr(taken), type(taken)) == (repr(value), type(value))  # there are no defaults
    else:
        with pytest.raises(SchemaMismatch) as raised:
            foreign.check(value)
        assert raised.value.fields

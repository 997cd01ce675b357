"""The published schema of agent files is that of the code, and fits the files that are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from capset import Registry, compose
from capset_connect.agent_files.files import read_agent_file
from scripts.agent_file_schema import FILE, render

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_file_is_what_the_code_says() -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "write it anew: python -m scripts.agent_file_schema"


@pytest.mark.spec("P4")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_fits_it_and_composes(path: Path) -> None:
    schema = json.loads(FILE.read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    composition = compose(read_agent_file(path, Registry.installed()))
    assert composition.notices == ()

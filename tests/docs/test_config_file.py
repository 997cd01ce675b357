"""What is published of configuration files is that of the code, and fits the files that are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from capset import Registry
from capset_connect.config_file import read_configuration
from scripts.config_file_schema import FILE, render
from scripts.config_reference import GUIDE, PAGES
from scripts.config_reference import render as render_page

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "configuration").glob("capset.*"))


def test_the_schema_is_what_the_code_says() -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "write it anew: python -m scripts.config_file_schema"


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_what_the_code_says(name: str) -> None:
    page = (GUIDE / name).read_text(encoding="utf-8")
    assert page == render_page(name, page), "write it anew: python -m scripts.config_reference"


@pytest.mark.spec("G27")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_fits_it_and_is_sound(path: Path) -> None:
    data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8"))).validate(data)
    configuration = read_configuration(path, Registry.installed())
    assert configuration.warnings == ()
    assert {"get-weather", "send-notification"} <= configuration.actions.keys()

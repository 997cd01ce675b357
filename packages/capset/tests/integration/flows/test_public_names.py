from __future__ import annotations

import inspect

import pytest

import capset.flows
import capset_testing


@pytest.mark.parametrize("module", [capset.flows, capset_testing], ids=lambda module: module.__name__)
def test_every_public_name_is_there_and_documented(module: object) -> None:
    names: list[str] = getattr(module, "__all__")  # noqa: B009
    assert names == sorted(names)
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
        for member, attribute in vars(value).items() if inspect.isclass(value) else ():
            if not member.startswith("_") and (inspect.isfunction(attribute) or isinstance(attribute, property)):
                assert inspect.getdoc(attribute), f"{name}.{member}"

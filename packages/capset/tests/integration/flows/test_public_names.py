from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import capset.flows
import capset_testing


@pytest.mark.parametrize("module", [capset.flows, capset_testing], ids=lambda module: module.__name__)
def test_every_public_name_is_documented(module: ModuleType) -> None:
    for name in module.__all__:
        value = getattr(module, name)
        members = [member for key, member in vars(value).items() if key[0] != "_"] if inspect.isclass(value) else []
        documented = [
            value,
            *(member for member in members if inspect.isfunction(member) or isinstance(member, property)),
        ]
        assert all(inspect.getdoc(member) for member in documented), name

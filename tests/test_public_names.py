"""The public names, and that each of them says what it is."""

from __future__ import annotations

import inspect
from importlib.resources import files

import pytest

import capset
import capset.ext

NAMES = [
    "Agent",
    "Capability",
    "CapabilityRef",
    "CapsetError",
    "Composition",
    "Context",
    "ContextMessage",
    "Decision",
    "DefinitionError",
    "Emit",
    "Hooks",
    "Json",
    "Kernel",
    "Message",
    "Messages",
    "Meta",
    "Policy",
    "Preset",
    "Principal",
    "Progress",
    "Record",
    "Registry",
    "Reply",
    "Request",
    "Resource",
    "Result",
    "Session",
    "Snapshot",
    "Tool",
    "ToolError",
    "Toolkit",
    "ToolkitContext",
    "Verdict",
    "allow",
    "ask",
    "compose",
    "deny",
    "dynamic_toolkit",
    "evaluate",
    "handles",
    "parameterised",
    "policy",
    "tool",
    "yields",
]


def test_the_names_are_these_and_no_others() -> None:
    assert capset.__all__ == NAMES
    public = {name for name, value in vars(capset).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public - {"annotations", "TYPE_CHECKING"} == set(NAMES)


@pytest.mark.parametrize("module", [capset, capset.ext], ids=lambda module: module.__name__)
def test_the_list_is_sorted_and_all_of_it_is_there(module: object) -> None:
    names: list[str] = getattr(module, "__all__")  # noqa: B009
    assert names == sorted(set(names))
    assert all(hasattr(module, name) for name in names)
    assert inspect.getdoc(module)


def own_documentation(value: object) -> str | None:
    if not inspect.isclass(value):
        return inspect.getdoc(value)
    text = vars(value).get("__doc__")
    # A dataclass without a docstring gets its signature for one.
    return None if text is None or text.startswith(f"{value.__name__}(") else text


@pytest.mark.parametrize("name", [*NAMES, *(f"ext.{name}" for name in capset.ext.__all__)])
def test_each_is_documented(name: str) -> None:
    owner, _, last = name.rpartition(".")
    value = getattr(capset.ext if owner else capset, last)
    if inspect.isclass(value) and issubclass(value, capset.CapsetError):
        return  # the tree in the module's docstring says what each is
    assert own_documentation(value), f"{name} needs a docstring"
    if inspect.isclass(value):
        undocumented = [
            member
            for member, attribute in vars(value).items()
            if not member.startswith("_")
            and (inspect.isfunction(attribute) or isinstance(attribute, property))
            and not inspect.getdoc(attribute)
        ]
        assert not undocumented, f"{name}: {undocumented}"


def test_the_package_says_that_it_is_typed() -> None:
    assert (files("capset") / "py.typed").is_file()

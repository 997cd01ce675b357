"""What an adapter says where its framework is missing, or is of another version than was tested."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from capset_frameworks.framework import Framework
from scripts.packages import ROOT

PYTEST = version("pytest")
TESTED = sorted(
    path.stem.removeprefix("test_")
    for path in (ROOT / "packages/capset-frameworks/tests/integration/frameworks").glob("test_*.py")
)
OWN = {"pydantic_ai", "tool_json"}
"""Adapters that need a package of capset's own extras, or none."""
FOLDER = ROOT / "packages/capset-frameworks/src/capset_frameworks"
ADAPTERS = [name for name in TESTED if name not in OWN and (FOLDER / f"{name}.py").exists()]
pytestmark = pytest.mark.spec("W7")


def test_one_that_is_not_installed_says_what_to_install() -> None:
    framework = Framework("no-such-framework", "no_such_framework", "1.2")
    with pytest.raises(ModuleNotFoundError) as caught, framework.importing():
        import no_such_framework  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]
    assert str(caught.value) == (
        "This adapter needs no-such-framework 1.2, which is not installed: pip install 'no-such-framework==1.2'"
    )
    assert framework.installed() is None
    framework.warn_if_untested()


@pytest.mark.parametrize("missing", ["no_such_space", "no_such_space.core"])
def test_one_in_a_namespace_of_several_distributions_is_missing_with_it_or_without_it(missing: str) -> None:
    framework = Framework("no-such-framework", "no_such_space.core", "1.2")
    with pytest.raises(ModuleNotFoundError, match="which is not installed"), framework.importing():
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)


def test_a_part_of_it_that_is_missing_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_part"), Framework("pytest", "pytest", "9").importing():
        import no_such_part  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]


def test_a_module_of_it_that_is_missing_is_one_of_another_version() -> None:
    framework = Framework("pytest", "pytest", "77.1")
    with pytest.raises(ImportError, match=r"This adapter is for pytest 77\.1; ") as caught, framework.importing():
        import_module("pytest.no_such_module")
    assert not isinstance(caught.value, ModuleNotFoundError)


def test_a_version_that_lacks_something_is_named_beside_the_one_that_was_tested() -> None:
    framework = Framework("pytest", "pytest", "77.1")
    with pytest.raises(ImportError) as caught, framework.importing():
        raise ImportError("cannot import name 'no_such_name' from 'pytest'")
    message = str(caught.value)
    assert message.startswith(
        f"This adapter is for pytest 77.1; {PYTEST} is installed, and lacks something that it uses"
    )
    assert "no_such_name" in message
    assert message.endswith("pip install 'pytest==77.1'")


@pytest.mark.parametrize(("tested", "is_told"), [("77.1", True), (PYTEST, False), (f"{PYTEST.split('.')[0]}.0", False)])
def test_another_series_is_warned_of(tested: str, is_told: bool) -> None:
    framework = Framework("pytest", "pytest", tested)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        framework.warn_if_untested()
    messages = [str(warning.message).split(". ")[0] for warning in caught]
    expected = f"This adapter was tested with pytest 77.1; {PYTEST} is installed"
    assert messages == ([expected] if is_told else [])


def test_below_1_the_minor_version_is_the_series() -> None:
    """pytest-timeout and pytest-xdist are at 2 and 3, and uv below 1."""
    major, minor, *_ = version("uv").split(".")
    assert major == "0", "choose another distribution below 1.0 for this test"
    with pytest.warns(RuntimeWarning):
        Framework("uv", "uv", f"0.{int(minor) + 1}").warn_if_untested()


@pytest.mark.realtime
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_adapter_is_imported_by_none_other(adapter: str, tmp_path: Path) -> None:
    """Where its framework is missing, all other modules work, and this one says what to install."""
    code = f"""
import sys
class Missing:
    names = ["openai", "anthropic"]
    def find_spec(name, path=None, target=None):
        if name in Missing.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing)
import capset_frameworks.tool_json
Missing.names += ["agents", "langchain", "langgraph", "agent_framework", "llama_index", "google", "claude_agent_sdk"]
import capset_frameworks.session_tools, capset_frameworks.pydantic_ai
import capset_frameworks.{adapter}
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert "ModuleNotFoundError: This adapter needs " in done.stderr.splitlines()[-1]

"""What is installed: by real entry points of a package that is made for the test (spec 5, P1)."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from capset import Agent, Capability, Registry
from capset.definitions.references import CapabilityRef
from capset.errors import CapabilityConflict, DefinitionError, NotFound
from scripts.capability_pages import capabilities

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Install]:
    """Return a function that installs a package of one module, ``thirdparty``, with these entry points."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(module: str, entry_points: str) -> None:
        (tmp_path / "thirdparty.py").write_text(textwrap.dedent(module))
        info = tmp_path / "thirdparty-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("thirdparty"):
            del sys.modules[name]


BUILT_IN = set(capabilities())


@pytest.mark.spec("P1")
def test_the_built_ins_are_installed_as_a_third_partys_would_be() -> None:
    registry = Registry.installed()
    assert set(registry.capabilities) >= BUILT_IN
    assert registry.problems == ()
    assert all(registry.get(name).name == name for name in BUILT_IN)


@pytest.mark.spec("P1", "P4")
def test_a_third_partys_package_is_found_and_its_agents_too(install: Install) -> None:
    install(
        """
        from capset import Agent, Capability
        weather = Capability("weather")
        forecaster = Agent("forecaster", uses=[weather])
        """,
        """
        [capset.capabilities]
        weather = thirdparty:weather
        again = thirdparty:weather
        [capset.agents]
        forecaster = thirdparty:forecaster
        """,
    )
    registry = Registry.installed()
    (used,) = registry.get_agent("forecaster").uses
    assert isinstance(used, CapabilityRef)
    assert registry.get("weather") is used.base, "one object under two entry points is no conflict"
    assert set(registry.capabilities) >= BUILT_IN


@pytest.mark.spec("P1")
def test_each_broken_entry_point_is_a_named_problem_and_the_rest_load(install: Install) -> None:
    install(
        """
        from capset import Agent, Capability
        good = Capability("good")
        number = 5
        cls = Capability
        def maker(): return Capability("made")
        def __getattr__(name):
            if name == "refused": return Capability("Not A Name")
            if name == "crashes": raise ZeroDivisionError("boom")
            raise AttributeError(name)
        """,
        """
        [capset.capabilities]
        good = thirdparty:good
        number = thirdparty:number
        cls = thirdparty:cls
        maker = thirdparty:maker
        missing = thirdparty:nothing
        nowhere = thirdparty_that_is_not_there:x
        crashes = thirdparty:crashes
        refused = thirdparty:refused
        [capset.agents]
        capability = thirdparty:good
        """,
    )
    registry = Registry.installed()
    assert set(registry.capabilities) >= BUILT_IN | {"good"}
    problems = {problem.entry_point: problem.message for problem in registry.problems}
    assert set(problems) == {"number", "cls", "maker", "missing", "nowhere", "crashes", "refused", "capability"}
    assert problems["number"] == "thirdparty:number is int, not Capability"
    assert problems["capability"] == "thirdparty:good is Capability, not Agent"
    assert "AttributeError" in problems["missing"]
    assert "ModuleNotFoundError" in problems["nowhere"]
    assert "ZeroDivisionError" in problems["crashes"]
    assert "'Not A Name'" in problems["refused"]


@pytest.mark.spec("P1")
@pytest.mark.parametrize(
    ("module", "why"),
    [("raise RuntimeError('not today')", "RuntimeError .*not today"), ("import sys; sys.exit(7)", "SystemExit .*: 7")],
)
def test_a_package_that_cannot_be_imported_keeps_out_only_itself_and_is_not_called_unknown(
    install: Install, module: str, why: str
) -> None:
    install(module, "[capset.capabilities]\na = thirdparty:a\n[capset.agents]\nb = thirdparty:b\n")
    registry = Registry.installed()
    assert set(registry.capabilities) == BUILT_IN
    assert [problem.entry_point for problem in registry.problems] == ["a", "b"]
    for kind, name, get in (("capability", "a", registry.get), ("agent", "b", registry.get_agent)):
        with pytest.raises(NotFound, match=f"{kind} '{name}' is installed, but could not be loaded: {why}"):
            get(name)
    with pytest.raises(NotFound, match="unknown capability 'b'"):
        registry.get("b")


def test_two_different_capabilities_of_one_name_refuse_to_load(install: Install) -> None:
    module = "from capset import Capability\nnoop = Capability('noop')"
    install(module, "[capset.capabilities]\nmine = thirdparty:noop\n")
    with pytest.raises(DefinitionError, match="named 'noop' are installed") as refused:
        Registry.installed()
    assert "mine = thirdparty:noop of thirdparty" in refused.value.message
    assert " of capset" in refused.value.message


def test_a_registry_is_immutable_and_its_order_is_by_name() -> None:
    registry = Registry.of([Capability("b"), Capability("a")], [Agent("z")])
    assert list(registry.capabilities) == ["a", "b"]
    with pytest.raises(TypeError):
        registry.capabilities["c"] = Capability("c")  # pyright: ignore[reportIndexIssue]
    with pytest.raises(AttributeError):
        registry.capabilities = {}  # pyright: ignore[reportAttributeAccessIssue]


def test_duplicates_are_refused() -> None:
    with pytest.raises(DefinitionError, match="two different"):
        Registry.of([Capability("a"), Capability("a")])
    with pytest.raises(DefinitionError, match="two different"):
        Registry.of([], [Agent("a"), Agent("a")])


def test_unknown_names_are_refused_with_what_was_perhaps_meant() -> None:
    registry = Registry.of([Capability("weather")], [Agent("forecaster")])
    with pytest.raises(NotFound, match="unknown capability 'wether'; did you mean 'weather'"):
        registry.get("wether")
    with pytest.raises(NotFound, match="unknown agent 'x'; available: forecaster"):
        registry.get_agent("x")


@pytest.mark.spec("C10")
def test_an_alias_is_its_capability_s_other_name() -> None:
    memory = Capability("memory", aliases=["mem", "recall"])
    registry = Registry.of([memory, Capability("noop")])
    assert registry.get("mem") is registry.get("recall") is registry.get("memory") is memory
    assert list(registry.capabilities) == ["memory", "noop"]
    with pytest.raises(NotFound, match="did you mean 'recall'"):
        registry.get("recal")


@pytest.mark.spec("C10")
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Capability("mem"), "'memory' has the alias 'mem', which is the name of capability 'mem'"),
        (Capability("zoo", aliases=["mem"]), "'zoo' has the alias 'mem', which is an alias of capability 'memory'"),
    ],
)
def test_an_alias_that_is_another_s_name_too_is_refused_naming_both(other: Capability, message: str) -> None:
    with pytest.raises(CapabilityConflict, match=message):
        Registry.of([Capability("memory", aliases=["mem"]), other])

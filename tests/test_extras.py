"""The commands that install extras: as written, they install from where the package came (PEP 610)."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from typing import Any

import pytest

from capset.extras import MissingExtras, install_command, missing_extras

REQUIRES = (
    "Requires-Dist: pydantic>=2\nRequires-Dist: no-such-package[a,b]>=1 ; extra == 'far'\n"
    "Requires-Dist: pydantic>=2 ; sys_platform != 'os9' and extra == 'near'\n"
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the metadata of an installed package ``thirdparty``."""
    info = tmp_path / "thirdparty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n{REQUIRES}")
    monkeypatch.syspath_prepend(str(tmp_path))
    return info


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (None, ["thirdparty[near,far]"]),
        ({"url": "file:///a%20folder/clone", "dir_info": {}}, ["/a folder/clone[near,far]"]),
        ({"url": "file:///clone", "dir_info": {"editable": True}}, ["-e", "/clone[near,far]"]),
        (
            {"url": "https://example.com/repo", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            ["thirdparty[near,far] @ git+https://example.com/repo@abc"],
        ),
        (
            {"url": "https://example.com/r", "vcs_info": {"vcs": "git", "commit_id": "a"}, "subdirectory": "b/c"},
            ["thirdparty[near,far] @ git+https://example.com/r@a#subdirectory=b/c"],
        ),
        (
            {"url": "file:///thirdparty-1.0-py3-none-any.whl", "archive_info": {}},
            ["thirdparty[near,far] @ file:///thirdparty-1.0-py3-none-any.whl"],
        ),
    ],
)
def test_the_command_names_the_origin(site: Path, origin: dict[str, Any] | None, words: list[str]) -> None:
    if origin is not None:
        (site / "direct_url.json").write_text(json.dumps(origin))
    command = shlex.split(install_command("near", "far", package="thirdparty"))
    assert command[command.index("install") + 1 :] == words


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    assert install_command("web", package="never-installed") == "uv pip install 'never-installed[web]'"


@pytest.mark.parametrize(
    ("value", "missing"), [("a:b", ()), ("a:b [near]", ()), ("a:b [far]", ("far",)), ("a:b [near, far]", ("far",))]
)
def test_an_extra_is_missing_until_all_that_it_brings_is_installed(
    site: Path, value: str, missing: tuple[str, ...]
) -> None:
    (site / "entry_points.txt").write_text(f"[capset.capabilities]\nb = {value}\n")
    (point,) = distribution("thirdparty").entry_points
    assert missing_extras(point) == (MissingExtras("thirdparty", missing) if missing else None)


def test_an_entry_point_of_no_package_misses_nothing() -> None:
    assert missing_extras(EntryPoint("b", "a:b [far]", "capset.capabilities")) is None


PACKAGES = ("cli", "tools", "client", "frameworks")
"""Extras that bring a package and nothing else."""
DATA = ("sandbox-data",)
"""Extras of packages that no code imports: the sandbox has those that its host names, for the code that it runs."""


def test_every_extra_is_used() -> None:
    """By an entry point, or named by what needs it: one that nothing uses is not offered."""
    root = Path(__file__).parents[1]
    core, tools = (
        tomllib.loads((root / f"packages/{name}/pyproject.toml").read_text(encoding="utf-8"))["project"]
        for name in ("capset", "capset-tools")
    )
    code = "".join(path.read_text(encoding="utf-8") for path in root.glob("packages/*/src/**/*.py"))
    used = set(re.findall(r"""(?:require_extra|install_command)\(\s*["']([a-z]\w*)["']""", code))
    used |= {extra for point in tools["entry-points"]["capset.capabilities"].values() for extra in extras_of(point)}
    extras = core["optional-dependencies"]
    assert set(extras_of(extras["all"][0])) - {*PACKAGES} == used
    frameworks = set(re.findall(r"""Framework\(.*extra="([\w-]+)"\)""", code)) - used  # an environment has one or two
    assert extras.keys() - {"all", *DATA, *PACKAGES} == used | frameworks


def extras_of(text: str) -> list[str]:
    """Return the names in square brackets."""
    return re.findall(r"\w+", text.partition("[")[2])

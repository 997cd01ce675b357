"""The pages that one reads first, of the workspace and of each package: their sizes, links, version and addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted((ROOT / "packages").iterdir())
REPOSITORY = "https://github.com/capset/capset"
LINK = re.compile(r"\[[^\]]*\]\(([^)]*)\)")
MOST_BYTES = {"README.md": 8_000, "AGENTS.md": 5_000}
MOST_BYTES_OF_PACKAGE = {"README.md": 5_000, "AGENTS.md": 2_000}


def project(package: Path) -> dict[str, Any]:
    return tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def links(page: Path) -> list[str]:
    return LINK.findall(page.read_text(encoding="utf-8"))


def test_what_is_read_first_is_short() -> None:
    sizes = {ROOT / name: limit for name, limit in MOST_BYTES.items()}
    sizes |= {package / name: limit for package in PACKAGES for name, limit in MOST_BYTES_OF_PACKAGE.items()}
    assert {page: page.stat().st_size for page, limit in sizes.items() if page.stat().st_size > limit} == {}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "AGENTS.md"], ids=lambda page: page.name)
def test_links_of_the_workspace_name_what_is_there(page: Path) -> None:
    assert [link for link in links(page) if not (ROOT / link.partition("#")[0]).exists()] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_links_of_a_package_are_whole_since_an_index_has_no_file_beside_its_readme(package: Path) -> None:
    for link in links(package / "README.md"):
        path = link.removeprefix(f"{REPOSITORY}/blob/main/")
        assert path != link, link
        assert (ROOT / path.partition("#")[0]).is_file(), link


def test_packages_have_one_version_and_name_each_other_by_it() -> None:
    projects = {package.name: project(package) for package in PACKAGES}
    (version,) = {metadata["version"] for metadata in projects.values()}
    for name, metadata in projects.items():
        extras = metadata.get("optional-dependencies", {}).values()
        for requirement in [
            *metadata["dependencies"],
            *(extra_requirement for extra in extras for extra_requirement in extra),
        ]:
            named = re.match(r"[\w-]+", requirement)
            assert named
            if named[0] in projects and named[0] != name:
                assert requirement.endswith(f"=={version}"), f"{name}: {requirement}"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_has_addresses_and_a_licence(package: Path) -> None:
    metadata = project(package)
    assert (metadata["name"], metadata["readme"]) == (package.name, "README.md")
    assert metadata["urls"].keys() == {"Repository", "Documentation", "Changelog", "Issues"}
    for name in ("Documentation", "Changelog"):
        assert (ROOT / metadata["urls"][name].removeprefix(f"{REPOSITORY}/blob/main/")).is_file()
    assert (package / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()

"""The README and the addresses of the project as a package index shows them: nothing there is beside it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"]
RAW = REPOSITORY.replace("github.com", "raw.githubusercontent.com")
LINKS = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", (ROOT / "README.md").read_text(encoding="utf-8"))


def there(url: str) -> Path | None:
    """Return the file or folder that an address within the repository names."""
    found = re.fullmatch(
        rf"(?:{re.escape(REPOSITORY)}/(?P<kind>blob|tree)|{re.escape(RAW)})/main/(?P<path>[^#]+)(?:#(?P<part>.+))?", url
    )
    if found is None:
        return None
    path = ROOT / found["path"]
    assert path.is_dir() if found["kind"] == "tree" else path.is_file(), url
    if found["part"]:
        titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert found["part"] in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, url
    return path


@pytest.mark.parametrize(("mark", "url"), LINKS)
def test_a_link_of_the_readme_is_whole_and_names_what_is_there(mark: str, url: str) -> None:
    assert url.startswith("https://"), "a package index has no file beside it: write the whole address"
    if url.startswith((REPOSITORY, RAW)):
        assert there(url) is not None, url
        assert url.startswith(RAW) == (mark == "!"), "a picture is shown from its raw address"


def test_the_project_has_addresses() -> None:
    assert PROJECT["readme"] == "README.md"
    urls = PROJECT["urls"]
    assert urls.keys() == {"Repository", "Documentation", "Changelog", "Issues"}
    assert (there(urls["Documentation"]), there(urls["Changelog"])) == (ROOT / "docs/index.md", ROOT / "CHANGELOG.md")
    assert urls["Issues"] == f"{REPOSITORY}/issues"

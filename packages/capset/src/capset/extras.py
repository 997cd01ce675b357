"""Missing extras of installed packages, and the command that installs them."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PACKAGE = "capset"
_EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?")
_BUILT_INS = "capset-tools"
"""The package of the built-ins, whose extras are extras of ``capset`` of the same names."""


def install_command(*extras: str, package: str = _PACKAGE) -> str:
    """Return the command that installs extras of a package, from the same origin as the package."""
    installer = "pip" if find_spec("pip") else "uv pip"  # environments created by uv have no pip
    return " ".join([installer, "install", *map(shlex.quote, _requirements(package, f"[{','.join(extras)}]"))])


def _requirements(package: str, extras: str) -> list[str]:
    """Return the requirements for a package with extras: its name, or the folder or URL of its origin (PEP 610).

    If ``capset`` was installed from a folder, its sibling packages are on no index, so their folders are listed too.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # a slow import

    try:
        text = distribution(package).read_text("direct_url.json")
    except PackageNotFoundError:  # run from its source
        text = None
    if text is None:
        return [package + extras]
    origin = json.loads(text)
    url: str = origin["url"]
    if (dir_info := origin.get("dir_info")) is not None:
        folder = Path(url2pathname(urlsplit(url).path))
        siblings = sorted(map(str, folder.parent.glob(f"{_PACKAGE}-*"))) if package == _PACKAGE else []
        options = ["-e"] if dir_info.get("editable") else []
        return [part for source in (f"{folder}{extras}", *siblings) for part in (*options, source)]
    if (version := origin.get("vcs_info")) is not None:
        fragment = f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else ""
        url = f"{version['vcs']}+{url}@{version['commit_id']}{fragment}"
    return [f"{package}{extras} @ {url}"]


@dataclass(frozen=True, slots=True)
class MissingExtras:
    """Extras of a package that are not completely installed."""

    package: str
    names: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that installs them."""
        return install_command(*self.names, package=self.package)


def extras_of(package: str = _PACKAGE) -> dict[str, bool]:
    """Return the extras of an installed package, and whether each is installed, including those of its siblings.

    Requirements for other platforms or versions of Python are not considered.
    """
    names = {name for requirement in _requires(package) or () for name in _EXTRA.findall(requirement)}
    return {name: _has_extra(package, name) for name in sorted(names)}


def _has_extra(package: str, extra: str) -> bool:
    """Return whether everything that an extra requires is installed."""
    required = _requires(package)
    if required is None:
        return False
    for requirement in required:
        marker = requirement.partition(";")[2]
        if extra not in _EXTRA.findall(marker) or " and " in marker:
            continue
        name, extras = cast("re.Match[str]", _REQUIREMENT.match(requirement)).groups(default="")
        inner = extras.replace(" ", "").split(",") if extras and name.startswith(_PACKAGE) else ()
        if _requires(name) is None or not all(_has_extra(name, inner_name) for inner_name in inner):
            return False
    return True


def _requires(package: str) -> list[str] | None:
    """Return the requirements of an installed package; ``None`` if it is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(package).requires or []
    except PackageNotFoundError:
        return None


def missing_extras(entry_point: EntryPoint) -> MissingExtras | None:
    """Return those extras of an entry point (``module:name [extra]``) that are missing, or ``None``."""
    if entry_point.dist is None or not entry_point.extras:
        return None
    required = entry_point.dist.requires or []
    names = tuple(extra for extra in entry_point.extras if not all(map(_is_installed, _required_by(extra, required))))
    package = _PACKAGE if entry_point.dist.name == _BUILT_INS else entry_point.dist.name
    return MissingExtras(package, names) if names else None


def _required_by(extra: str, required: list[str]) -> list[str]:
    """Return the names of the packages that an extra requires."""
    marker = re.compile(rf"""\bextra\s*==\s*['"]{re.escape(extra)}['"]""")
    return [re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in required if marker.search(requirement)]


def _is_installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True

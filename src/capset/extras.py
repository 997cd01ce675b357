"""Extras of installed packages: the missing ones, and the command that installs them."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_OWN = "capset"


def install_command(*extras: str, package: str = _OWN) -> str:
    """Return the command that installs extras of a package, from where the package itself was installed."""
    options, source = _source(package, f"[{','.join(extras)}]")
    installer = "pip" if find_spec("pip") else "uv pip"  # environments that uv makes have no pip
    return " ".join([installer, "install", *options, shlex.quote(source)])


def _source(package: str, extras: str) -> tuple[list[str], str]:
    """Return options of pip, and a package with extras: by its name, or the folder or URL of its origin (PEP 610)."""
    from importlib.metadata import PackageNotFoundError, distribution  # a slow import

    try:
        text = distribution(package).read_text("direct_url.json")
    except PackageNotFoundError:  # run from its source
        text = None
    if text is None:
        return [], package + extras
    origin = json.loads(text)
    url: str = origin["url"]
    if (folder := origin.get("dir_info")) is not None:
        return ["-e"] if folder.get("editable") else [], url2pathname(urlsplit(url).path) + extras
    if (version := origin.get("vcs_info")) is not None:
        url = f"{version['vcs']}+{url}@{version['commit_id']}"
    return [], f"{package}{extras} @ {url}"


@dataclass(frozen=True, slots=True)
class MissingExtras:
    """Extras of a package that are not completely installed."""

    package: str
    names: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that installs them."""
        return install_command(*self.names, package=self.package)


def missing_extras(point: EntryPoint) -> MissingExtras | None:
    """Return the missing ones of the extras that an entry point needs (``module:name [extra]``), if there are any."""
    if point.dist is None or not point.extras:
        return None
    required = point.dist.requires or []
    names = tuple(extra for extra in point.extras if not all(map(_is_installed, _brought(extra, required))))
    return MissingExtras(point.dist.name, names) if names else None


def _brought(extra: str, required: list[str]) -> list[str]:
    """Return the names of the packages that an extra brings."""
    marker = re.compile(rf"""\bextra\s*==\s*['"]{re.escape(extra)}['"]""")
    return [re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in required if marker.search(one)]


def _is_installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True

"""MCP bundles: an agent or a configuration as one file that MCP clients install, started by uv (spec 8, W27)."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as version_of
from pathlib import Path, PurePosixPath
from typing import Final

from capset.adapters.interop.exports import Export, absent, in_order
from capset.adapters.interop.publications import checked_version, description_of
from capset.definitions.names import checked_text
from capset.errors import DefinitionError
from capset.evaluation.snapshot.snapshot import Snapshot

MANIFEST: Final = "0.4"
_ENTRY: Final = "server.py"
_OWN: Final = frozenset({"manifest.json", "pyproject.toml", _ENTRY})
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*[^\x00-\x1f\x7f\"\\]*")
_PYTHON: Final = ">=3.11"
_SERVER: Final = '''"""Serve the tools of this bundle over standard streams."""

from capset.cli.app import app

app({arguments})
'''
_PROJECT: Final = """[project]
name = "{name}"
version = "{version}"
requires-python = "{python}"
dependencies = [
{dependencies}]
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The bytes of a bundle, its manifest, and what it does not hold."""

    content: bytes
    manifest: Export


@dataclass(frozen=True, slots=True)
class BundledAgent:
    """An agent as a bundle starts it: by options of ``capset mcp serve``, with files that these name."""

    options: Sequence[str]
    """Such as ``--config``, ``capset.yaml``."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Content by the path in the bundle."""


def export_bundle(
    snapshot: Snapshot,
    agent: BundledAgent,
    *,
    version: str,
    author: str,
    description: str | None = None,
    requirements: Iterable[str] = (),
) -> Bundle:
    """Return an MCP bundle (``.mcpb``) of an agent: equal agents give equal bytes.

    Args:
        snapshot: the agent, as ``evaluate`` sees it.
        agent: how it is started, and its files.
        version: the bundle's version, such as ``1.0.0``.
        author: who publishes it.
        description: what it is for; the agent's own, if left out.
        requirements: packages beside ``capset[mcp]`` of this version, such as ``capset[web]`` or one with capabilities.

    Raises ``DefinitionError``.
    """
    name = re.sub("[^a-z0-9]+", "-", snapshot.composition.block.name.lower()).strip("-") or "agent"
    command = ["mcp", "serve", *agent.options, *_principal_options(snapshot)]
    if not checked_text("the author", author).strip():
        raise DefinitionError("a bundle needs an author: give the name of a person or an organisation")
    content = {
        "manifest_version": MANIFEST,
        "name": name,
        "display_name": snapshot.composition.block.name,
        "version": checked_version(version),
        "description": description_of(snapshot, description),
        "author": {"name": author},
        "server": {
            "type": "uv",
            "entry_point": _ENTRY,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", _ENTRY],
                "env": {"CAPSET_DB": "${user_config.db}"},
            },
        },
        "tools": [{"name": one.name, "description": one.tool.description} for one in in_order(snapshot)],
        "compatibility": {"runtimes": {"python": _PYTHON}},
        "user_config": {
            "db": {
                "type": "string",
                "title": "Record",
                "description": "The SQLite file that keeps the record of all calls.",
                "required": True,
                "default": f"${{HOME}}/{name}.db",
            }
        },
    }
    needed = [f"capset[mcp]=={version_of('capset')}", *map(_checked_requirement, requirements)]
    project = _PROJECT.format(
        name=name, version=version, python=_PYTHON, dependencies="".join(f'    "{one}",\n' for one in needed)
    )
    texts = {
        "manifest.json": json.dumps(content, indent=2, ensure_ascii=False) + "\n",
        "pyproject.toml": project,
        _ENTRY: _SERVER.format(arguments=json.dumps(command)),
    }
    files = {path: text.encode() for path, text in texts.items()} | {
        _checked_path(path): data for path, data in agent.files.items()
    }
    told = (f"packages beside {', '.join(needed)}: requirements name them", *absent(snapshot))
    return Bundle(_zipped(files), Export(content, told))


def bundled_file(option: str, path: Path, others: Iterable[str] = ()) -> BundledAgent:
    """Return an agent that a file declares, with the files below its folder that it names, as relative paths.

    ``option`` is that of ``capset mcp serve``, ``--agent`` or ``--config``. Raises ``DefinitionError`` for a file that
    cannot be read.
    """
    files: dict[str, bytes] = {}
    for relative in dict.fromkeys((path.name, *(PurePosixPath(one).as_posix() for one in others))):
        try:
            files[relative] = (path.parent / relative).read_bytes()
        except OSError as error:
            raise DefinitionError(f"{path.parent / relative} cannot be read: {error.strerror}") from None
    return BundledAgent([option, path.name], files)


def _principal_options(snapshot: Snapshot) -> Iterator[str]:
    """Yield options by which the bundle's principal and environment are those of a snapshot."""
    who = snapshot.principal
    yield from ("--principal", who.id)
    for permission in sorted(who.permissions):
        yield from ("--grant", permission)
    for option, values in (("--attribute", who.attributes), ("--env", snapshot.env)):
        for key, value in sorted(values.items()):
            yield from (option, f"{key}={json.dumps(value)}")


def _checked_path(path: str) -> str:
    parts = PurePosixPath(path).parts
    if path in _OWN or PurePosixPath(path).is_absolute() or ".." in parts or "\\" in path or not parts:
        raise DefinitionError(f"a bundle cannot have a file at {path!r:.80}: give another path below its folder")
    return path


def _checked_requirement(given: str) -> str:
    if not _REQUIREMENT.fullmatch(given):
        raise DefinitionError(f"a requirement was expected, such as 'capset[web]' or 'tools==1.2'; got {given!r:.80}")
    return given


def _zipped(files: Mapping[str, bytes]) -> bytes:
    """Return an archive whose bytes depend on nothing but the files: no times, no compression of some version."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()

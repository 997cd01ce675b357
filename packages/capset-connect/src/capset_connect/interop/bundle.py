"""MCP bundles: an agent or a configuration in one file that MCP clients install and start with uv (spec 8, W27)."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as version_of
from pathlib import Path, PurePosixPath
from typing import Final, cast

from capset.definitions.names import checked_text
from capset.definitions.principals import Principal
from capset.definitions.secrets import is_secret_name
from capset.errors import DefinitionError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset_connect.interop.exports import Export, absent, in_order
from capset_connect.interop.publications import checked_version, description_of

MANIFEST: Final = "0.4"
_ENTRY: Final = "server.py"
_OWN: Final = frozenset({"manifest.json", "pyproject.toml", _ENTRY})
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*[^\x00-\x1f\x7f\"\\]*")
_PYTHON: Final = ">=3.11"
_SERVER: Final = '''"""Serve the tools of this bundle over standard streams."""

import sys

if not sys.flags.safe_path:
    # Remove this folder: a file of the bundle such as calendar.py would shadow the module of that name.
    del sys.path[0]

from capset_cli.app import app

app({arguments})
'''
_PROJECT: Final = """[project]
name = "{name}-bundle"
version = "0"
requires-python = "{python}"
dependencies = [
{dependencies}]
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The bytes of a bundle, and its manifest as an export."""

    content: bytes
    manifest: Export


@dataclass(frozen=True, slots=True)
class BundledAgent:
    """An agent of a bundle: the options of ``capset mcp serve`` that start it, and the files that they name."""

    options: Sequence[str]
    """For example ``--agent``, ``capset.yaml``."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """File contents by their paths in the bundle."""


def export_bundle(
    snapshot: Snapshot,
    agent: BundledAgent,
    *,
    version: str,
    author: str,
    description: str | None = None,
    requirements: Iterable[str] = (),
) -> Bundle:
    """Return an MCP bundle (``.mcpb``) of an agent. Equal agents give equal bytes.

    Args:
        snapshot: the agent, as returned by ``evaluate``.
        agent: how it is started, and its files.
        version: the bundle's version, such as ``1.0.0``.
        author: the publisher.
        description: the bundle's purpose; the agent's description, if left out.
        requirements: packages in addition to ``capset[mcp]`` of this version, such as ``capset[web]``.

    ``server.py`` contains the principal, its permissions and attributes, and the environment in plain text. Names of
    secrets are therefore refused, and ``manifest.warnings`` lists the content. Raises ``DefinitionError``.
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
                # The environment of the client must not grant more than the options.
                "env": {"CAPSET_DB": "${user_config.db}", "CAPSET_GRANT": "", "CAPSET_ATTRIBUTES": "{}"},
            },
        },
        "tools": [
            {"name": installed.name, "description": installed.tool.description} for installed in in_order(snapshot)
        ],
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
        name=name, python=_PYTHON, dependencies="".join(f'    "{package}",\n' for package in needed)
    )
    texts = {
        "manifest.json": json.dumps(content, indent=2, ensure_ascii=False) + "\n",
        "pyproject.toml": project,
        _ENTRY: _SERVER.format(arguments=ascii(command)),
    }
    _check_paths(agent.files)
    files = {path: text.encode() for path, text in texts.items()} | dict(agent.files)
    left_out = (f"packages other than {', '.join(needed)}: list them in requirements", *absent(snapshot))
    return Bundle(_zipped(files), Export(content, left_out, (_readable(snapshot),)))


def bundled_file(path: Path, others: Iterable[str] = ()) -> BundledAgent:
    """Return the agent that a file declares, with the file and ``others``, which are paths relative to its folder.

    Raises ``DefinitionError`` for a file that cannot be read.
    """
    files: dict[str, bytes] = {}
    for relative in dict.fromkeys((path.name, *(PurePosixPath(other).as_posix() for other in others))):
        try:
            files[relative] = (path.parent / relative).read_bytes()
        except OSError as error:
            raise DefinitionError(f"{path.parent / relative} cannot be read: {error.strerror}") from None
    return BundledAgent(["--agent", path.name], files)


def _principal_options(snapshot: Snapshot) -> Iterator[str]:
    """Yield the options that give the bundle the principal and environment of a snapshot."""
    principal = snapshot.principal
    _check_principal(principal)
    yield from ("--principal", principal.id)
    for permission in sorted(principal.permissions):
        yield from ("--grant", permission)
    for option, values in (("--attribute", principal.attributes), ("--env", snapshot.env)):
        for key, value in sorted(values.items()):
            if (secret := next(_secret_names(key, value), None)) is not None:
                raise DefinitionError(
                    f"{option} {key}: {secret!r:.80} is the name of a secret, but a bundle's server.py is plain text",
                    hint=f"remove {option} {key}, or rename it if it is not a secret",
                )
            yield from (option, f"{key}={json.dumps(value)}")


def _check_principal(principal: Principal) -> None:
    """Raise ``DefinitionError`` for a principal that the options of ``capset mcp serve`` cannot express."""
    plain = Principal(principal.id)
    for fact in ("kind", "org", "on_behalf_of", "allowance"):
        if (value := getattr(principal, fact)) != getattr(plain, fact):
            raise DefinitionError(
                f"a bundle serves a plain user, but principal {principal.id!r:.80} has {fact} {value!r:.80}",
                hint="write the bundle for a principal with only an id, permissions and attributes",
            )


def _secret_names(key: str, value: object) -> Iterator[str]:
    """Yield the names of secrets in the value of an option, at every depth."""
    if is_secret_name(key):
        yield key
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            yield from _secret_names(name, inner)
    elif isinstance(value, list | tuple):
        for inner in cast("Sequence[object]", value):
            yield from _secret_names("", inner)


def _readable(snapshot: Snapshot) -> str:
    """Return a warning that lists what a bundle reveals about its principal."""
    principal = snapshot.principal
    facts = {"permissions": principal.permissions, "attributes": principal.attributes, "environment": snapshot.env}
    parts = [f"{fact} {', '.join(sorted(names)) if names else '(none)'}" for fact, names in facts.items()]
    return f"server.py can be read by all who have the bundle: principal {principal.id}, {', '.join(parts)}"


def _check_paths(paths: Iterable[str]) -> None:
    """Raise ``DefinitionError`` for paths that are outside the folder, or equal, on any operating system."""
    taken = {name.casefold(): name for name in _OWN}
    for path in paths:
        parts = PurePosixPath(path).parts
        is_plain = PurePosixPath(path).as_posix() == path and not any(sign in path for sign in "\\:\0")
        if not is_plain or PurePosixPath(path).is_absolute() or ".." in parts or not parts:
            raise DefinitionError(
                f"a bundle cannot have a file at {path!r:.80}: give another path below its folder",
                hint="such as handlers/weather.py",
            )
        if (other := taken.setdefault(path.casefold(), path)) != path or path in _OWN:
            raise DefinitionError(
                f"a bundle cannot have a file at {path!r:.80} beside {other}: their names differ in case at most",
                hint="give one of them another name",
            )


def _checked_requirement(requirement: str) -> str:
    if not _REQUIREMENT.fullmatch(requirement):
        raise DefinitionError(
            f"a requirement was expected, such as 'capset[web]' or 'tools==1.2'; got {requirement!r:.80}"
        )
    return requirement


def _zipped(files: Mapping[str, bytes]) -> bytes:
    """Return an archive whose bytes depend on the files alone: it has no timestamps and no compression."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()

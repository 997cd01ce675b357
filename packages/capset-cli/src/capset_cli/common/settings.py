"""Settings of a command: options, then ``CAPSET_*`` variables, then ``capset.toml`` in this folder, then defaults."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.definitions.principals import Principal
from capset.errors import DefinitionError, refuse_unknown_keys

FILE: Final = "capset.toml"
DEFAULT_DB: Final = "sqlite:///capset.db"
_MEMORY: Final = re.compile(r"memory:?/?")
"""Names without slashes that look like ``memory://``, but would be file names."""
_KEYS: Final = ("db", "redis", "principal", "grant", "attributes", "env", "allowance")


@dataclass(frozen=True, slots=True)
class Settings:
    """The database, the principal and its permissions, and the environment that policies may read."""

    db: str
    principal: Principal
    env: Mapping[str, Any]
    redis: str | None = None
    """The Redis through which processes on the same database notify each other of changes."""


def load_settings(
    *,
    db: str | None = None,
    redis: str | None = None,
    principal: str | None = None,
    grant: list[str] | None = None,
    attribute: list[str] | None = None,
    env: list[str] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Return the settings in force. ``CAPSET_GRANT`` separates permissions by commas; an empty one grants nothing.

    ``db`` is a URL, or a file name, which stands for ``sqlite:///FILE``. Each ``attribute`` is ``KEY=VALUE``, where the
    value is JSON or else a string. If any are given, they replace those in ``CAPSET_ATTRIBUTES`` (a JSON object), which
    in turn replace the file's. Each ``env`` has the same form, and overrides the file's value of its key. Raises
    ``DefinitionError`` if the settings file cannot be read or has an unknown key.
    """
    variables = os.environ if environ is None else environ
    file = read_settings(folder or Path.cwd())
    db_name = variables.get("CAPSET_DB", str(file.get("db", DEFAULT_DB))) if db is None else db
    principal_id = (
        variables.get("CAPSET_PRINCIPAL", str(file.get("principal", "local"))) if principal is None else principal
    )
    permissions = grant or file.get("grant", [])
    if not grant and "CAPSET_GRANT" in variables:
        permissions = [permission.strip() for permission in variables["CAPSET_GRANT"].split(",") if permission.strip()]
    attributes = parse_attributes(attribute) or file.get("attributes", {})
    if not attribute and "CAPSET_ATTRIBUTES" in variables:
        attributes = _parse_object("CAPSET_ATTRIBUTES", variables["CAPSET_ATTRIBUTES"] or "{}")
    environment = file.get("env", {}) | parse_env(env)
    redis_url = variables.get("CAPSET_REDIS", file.get("redis")) if redis is None else redis
    acting_principal = Principal(principal_id, permissions=permissions, attributes=attributes)
    return Settings(_database_url(db_name), acting_principal, environment, redis_url or None)


def parse_env(env: list[str] | None) -> dict[str, Any]:
    """Return the values of ``--env``, each ``KEY=VALUE``. Raises ``DefinitionError`` for a malformed one."""
    return dict(_parse_entry("--env", entry) for entry in env or ())


def parse_attributes(attribute: list[str] | None) -> dict[str, Any]:
    """Return the values of ``--attribute``, each ``KEY=VALUE``. Raises ``DefinitionError`` for a duplicate name."""
    attributes: dict[str, Any] = {}
    for name, value in (_parse_entry("--attribute", entry) for entry in attribute or ()):
        if name in attributes:
            raise DefinitionError(f"--attribute {name} is given twice: an attribute has one value")
        attributes[name] = value
    return attributes


def require_db(url: str) -> str:
    """Return the URL. Raises ``DefinitionError`` if its file does not exist: reading must not create a database."""
    if not has_db(url):
        path = url.partition(":///")[2]
        raise DefinitionError(f"there is no database at {path}", hint="name one with --db or CAPSET_DB")
    return url


def has_db(url: str) -> bool:
    """Return whether a database may exist at a URL: only a missing SQLite file rules it out."""
    scheme, _, path = url.partition(":///")
    return scheme != "sqlite" or Path(path).exists()


def _parse_entry(option: str, text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise DefinitionError(f"{option} must be KEY=VALUE, such as tier=pro; got {text!r}")
    try:
        return key, from_json(value.encode(), allow_inf_nan=False)
    except ValueError:  # not JSON, or not UTF-8, which is refused where it is used
        return key, value


def _parse_object(variable: str, text: str) -> dict[str, Any]:
    try:
        decoded: object = from_json(text.encode(), allow_inf_nan=False)
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict):
        raise DefinitionError(f'{variable} must be a JSON object, such as {{"tier": "pro"}}')
    return cast("dict[str, Any]", decoded)


def _database_url(name: str) -> str:
    """Return the URL of a database. Raises ``DefinitionError`` for a misspelt ``memory://``."""
    if "://" in name:
        return name
    if _MEMORY.fullmatch(name):
        raise DefinitionError(
            f"{name!r} would be a file name: for a store in memory, use memory://",
            hint=f"for a file with this name, use sqlite:///{name}",
        )
    return f"sqlite:///{name}"


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the contents of a folder's settings file. Raises ``DefinitionError`` if it is invalid."""
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors on Windows may write a BOM
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DefinitionError(f"{FILE} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{FILE} is not UTF-8 text, at byte {error.start}") from None
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"{FILE} is not TOML: {error}") from None
    refuse_unknown_keys(FILE, data, _KEYS)
    for key in ("db", "redis", "principal"):
        if not isinstance(data.get(key, ""), str):
            raise DefinitionError(f"{FILE}: {key} must be text; got {data[key]!r}")
    grant = data.get("grant", [])
    if not isinstance(grant, list) or not all(isinstance(permission, str) for permission in grant):  # pyright: ignore[reportUnknownVariableType]
        raise DefinitionError(f"{FILE}: grant must be a list of permissions; got {grant!r}")
    if not isinstance(data.get("env", {}), dict):
        raise DefinitionError(f"{FILE}: env must be a table, such as [env]; got {data['env']!r}")
    if not isinstance(data.get("allowance", {}), dict):
        raise DefinitionError(f"{FILE}: allowance must be a table, such as [allowance]; got {data['allowance']!r}")
    return data

"""Small distributions, for tests of what is installed: wheels that are made here and installed by a real installer."""

from __future__ import annotations

import base64
import hashlib
import importlib
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

UV = Path(sys.executable).with_name("uv")


def make_wheel(folder: Path, name: str, version: str, files: Mapping[str, str | bytes], entry_points: str = "") -> Path:
    """Write a wheel of these files, by their paths, with a RECORD as PEP 427 wants it."""
    info = f"{name}-{version}.dist-info"
    contents: dict[str, bytes] = {
        path: content.encode() if isinstance(content, str) else content for path, content in files.items()
    }
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    contents[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if entry_points:
        contents[f"{info}/entry_points.txt"] = entry_points.encode()
    rows = [f"{path},sha256={_urlsafe(content)},{len(content)}" for path, content in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in contents.items():
            archive.writestr(path, content)
    return wheel


def install_wheel(wheel: Path, target: Path) -> Path:
    """Install a wheel into a folder, in the place of another version that may be there; return the folder."""
    command = [UV, "pip", "install", "--no-index", "--no-deps", "--no-cache", "--quiet", "--upgrade"]
    subprocess.run([*command, "--python", sys.executable, "--target", target, wheel], check=True)
    return target


def fresh_import(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a module from a folder, whatever other version of its package was imported before."""
    top = name.partition(".")[0]
    for module_name in [module for module in sys.modules if module.partition(".")[0] == top]:
        monkeypatch.delitem(sys.modules, module_name)
    monkeypatch.syspath_prepend(str(root))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def _urlsafe(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()

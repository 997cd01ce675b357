"""A workspace with everything around it that must not be read, and paths to that (see paths.yaml)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

SECRET: Final = "hunter2"
CAP: Final = 1000


def make_tree(root: Path) -> Path:
    """Make the tree below a folder, and return the workspace."""
    workspace = root / "workspace"
    for folder in ("outside", "workspace-evil", "workspaces", "workspace/deep", "workspace/links", "workspace/odd"):
        (root / folder).mkdir(parents=True)
    for folder in ("outside", "workspace-evil", "workspaces"):
        (root / folder / "secret.txt").write_text(SECRET)
    (workspace / "notes.txt").write_text("mine")
    (workspace / "deep" / "inner.txt").write_text("inner")
    (workspace / "large.bin").write_bytes(bytes(CAP + 1))
    _make_links(root, workspace / "links")
    _make_odd(workspace / "odd")
    return workspace


def _make_links(root: Path, links: Path) -> None:
    targets = {
        "file": "../../outside/secret.txt",
        "folder": "../../outside",
        "absolute": f"{root}/outside/secret.txt",
        "parent": "../..",
        "twice": "absolute",
        "chain": "twice",
        "sibling": "../../workspace-evil",
        "proc": "/proc",
        "dangling": f"{root}/outside/nothing",
        "in": "../deep",
        "self": "self",
        "ping": "pong",
        "pong": "ping",
        "growing": "growing/growing",
        "large": "../large.bin",
        "fine": "in/inner.txt",
        "whole": f"{root}/workspace/deep/inner.txt",
    }
    for name, target in targets.items():
        (links / name).symlink_to(target)


def _make_odd(odd: Path) -> None:
    os.mkfifo(odd / "pipe")
    (odd / "link_to_pipe").symlink_to("pipe")
    (odd / "link_to_device").symlink_to("/dev/zero")
    with (odd / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    previous = Path.cwd()
    with socket.socket(socket.AF_UNIX) as unix_socket:
        os.chdir(odd)  # the path of a socket has 107 bytes at most
        try:
            unix_socket.bind("socket")
        finally:
            os.chdir(previous)


def climbing() -> Iterator[str]:
    """Yield paths that climb from ever deeper, by more steps than they went down."""
    for up in range(1, 40, 3):
        yield "../" * up + "outside/secret.txt"
        yield "deep/" + "../" * (up + 1) + "outside/secret.txt"
        yield "./" * up + "..//" * up + "outside/secret.txt"


def endless() -> Iterator[str]:
    """Yield paths of ever more letters, bytes and names."""
    for power in range(8, 18):
        yield "a" * (1 << power)
        yield "ä" * (1 << power)
        yield "a/" * (1 << power) + "b"
        yield "../" * (1 << power) + "outside/secret.txt"


def lookalikes() -> Iterator[str]:
    """Yield the way out with every letter that Unicode takes for like a dot or a slash."""
    for dot in "．․。·․﹒":
        yield f"{dot}{dot}/outside/secret.txt"
        yield f"{dot}./outside/secret.txt"
    for slash in "／⁄∕⧸╱":
        yield f"..{slash}outside{slash}secret.txt"


GENERATORS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "climbing": climbing,
    "endless": endless,
    "lookalikes": lookalikes,
}

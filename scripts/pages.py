"""Folders of the documentation that are made of something else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages by the names of their files, and remove those of the folder that are no more."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


def read_pages(folder: Path) -> dict[str, str]:
    """Return the pages of a folder by the names of their files."""
    return {page.name: page.read_text(encoding="utf-8") for page in folder.glob("*.md")}

"""The ports that built-ins and third parties may use beyond the public names of ``capset``."""

from __future__ import annotations

from capset.definitions.files import Files, FileStat, normalise_path
from capset.errors import FileError

__all__ = ["FileError", "FileStat", "Files", "normalise_path"]

"""The ports that built-ins and third parties may use beyond the public names of ``capset``."""

from __future__ import annotations

from capset.definitions.data import Document, DocumentsHandle, ResourceHandle, StateHandle
from capset.definitions.files import Files, FileStat, normalise_path
from capset.definitions.resources import Documents
from capset.definitions.secrets import Secrets
from capset.errors import FileError, StateError
from capset.kernel.generating import GeneratorRunner, ModelStep, Turn

__all__ = [
    "Document",
    "Documents",
    "DocumentsHandle",
    "FileError",
    "FileStat",
    "Files",
    "GeneratorRunner",
    "ModelStep",
    "ResourceHandle",
    "Secrets",
    "StateError",
    "StateHandle",
    "Turn",
    "normalise_path",
]

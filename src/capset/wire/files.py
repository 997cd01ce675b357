"""Files on the wire (spec 5, P11)."""

from __future__ import annotations

from capset.definitions.files import FileStat
from capset.wire.shapes import Shape


class FileShape(Shape):
    """What is known of one file or directory."""

    path: str
    name: str
    is_directory: bool
    is_readonly: bool
    size_bytes: int
    version: int
    created_at: str
    modified_at: str


class FolderShape(Shape):
    """A directory: what it holds, directories first, then by name; or all below it by path."""

    path: str
    items: list[FileShape]


class WrittenShape(Shape):
    """A file that was written, and whether it is new."""

    created: bool
    file: FileShape


def file_shape(stat: FileStat) -> FileShape:
    """Return the wire shape of a file or directory."""
    return FileShape(**{name: getattr(stat, name) for name in FileShape.model_fields})

"""The tool ``file_read`` (spec 4, G31)."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from capset import Context, Tool, ToolError, tool
from capset.builtin.files.paths import names_of, open_file, shown
from capset.ext import in_thread

Encoding = Literal[
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "ascii", "latin-1", "windows-1252", "base64"
]


class FilesConfig(BaseModel):
    """How much of the workspace one call may give."""

    model_config = ConfigDict(frozen=True)

    max_bytes: int = Field(
        default=1 << 20, ge=1, le=1 << 28, description="How many bytes a file may have that is read."
    )


class FileText(TypedDict):
    path: Annotated[str, Field(description="The path that was asked for.")]
    content: Annotated[str, Field(description="The whole file, in `encoding`.")]
    encoding: Annotated[Encoding, Field(description="What the file was read as.")]
    size: Annotated[int, Field(description="How many bytes the file has.")]


def file_read_of(config: Callable[[Context], FilesConfig]) -> Tool[..., Any]:
    """Return the tool that reads the workspace of a call."""

    @tool(effect="read", permissions={"file:read"})
    async def file_read(ctx: Context, path: str, encoding: Encoding = "utf-8") -> FileText:
        """Read a whole file of the workspace. Use it for files that the host has put there for you; it only reads.

        The files of the session are others: they have tools of their own.

        Args:
            path: Path relative to the workspace, with /, such as docs/readme.txt.
            encoding: How the text is encoded; base64 gives the bytes of a file that is not text.
        """
        workspace, cap = ctx.workspace, config(ctx).max_bytes
        if workspace is None:
            raise ToolError(
                "there is no workspace here, so no file can be read",
                code="no_workspace",
                status=403,
                hint="Kernel(workspace=…) names the folder that tools may read",
            )
        data = await in_thread(ctx, partial(_bytes_of, workspace, path, cap))
        return FileText(path=path, content=_decoded(data, encoding, path), encoding=encoding, size=len(data))

    return file_read


def _bytes_of(workspace: Path, path: str, cap: int) -> bytes:
    with os.fdopen(open_file(workspace, names_of(path), path), "rb", buffering=0) as file:
        if (size := os.fstat(file.fileno()).st_size) > cap:
            raise _too_large(path, f"{size:,} bytes", cap)
        parts, read = list[bytes](), 0
        while part := file.read(min(cap + 1 - read, 1 << 20)):
            parts.append(part)
            read += len(part)
            if read > cap:  # it has grown since, or never reported its size
                raise _too_large(path, f"more than {cap:,} bytes", cap)
        return b"".join(parts)


def _decoded(data: bytes, encoding: Encoding, path: str) -> str:
    if encoding == "base64":
        return b64encode(data).decode()
    try:
        text = data.decode(encoding)
        text.encode()  # JSON cannot carry lone surrogates, which UTF-32 and others may contain
    except UnicodeError:
        raise ToolError(
            f"{shown(path)} is no {encoding} text; try another encoding, or base64", code="not_text", status=422
        ) from None
    return text


def _too_large(path: str, size: str, cap: int) -> ToolError:
    return ToolError(f"{shown(path)} has {size}; at most {cap:,} can be read", code="too_large", status=413)

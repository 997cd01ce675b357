"""Configuration of the sandbox: the limits of one run."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from capset_tools.sandbox.child.frames import Backend, RunLimits, Stopped

_MIB: Final = 1 << 20
MAX_SECONDS: Final = 300

Language = Literal["python", "bash"]
Isolation = Literal["auto", "isolated-cpython", "monty"]
Packages = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)], ...], Field(max_length=50)
]


class SandboxConfig(BaseModel):
    """Configuration of ``sandbox``, set by ``sandbox.with_config(SandboxConfig(…))``. Every limit has a maximum."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float = Field(
        default=10.0, ge=0.1, le=MAX_SECONDS, description="How long the code may run, sleeping included."
    )
    memory_bytes: int = Field(
        default=128 * _MIB,
        ge=16 * _MIB,
        le=2048 * _MIB,
        description="How many bytes the values of the code may take, beside what the interpreter itself takes.",
    )
    output_bytes: int = Field(
        default=1 << 16,
        ge=1_000,
        le=4 * _MIB,
        description="How many bytes are kept of each of stdout, stderr, value and error. A run that prints 16 times "
        "as much is stopped.",
    )
    max_files: int = Field(
        default=1_000, ge=1, le=10_000, description="How many files a run may have, those of the session included."
    )
    max_bytes: int = Field(
        default=16 * _MIB, ge=1_000, le=256 * _MIB, description="How many bytes all files of a run may have together."
    )

    backend: Isolation = Field(
        default="auto",
        description="What runs code: isolated-cpython is CPython itself, and bash itself, in namespaces of their own "
        "(Linux); monty is Monty, an interpreter of a subset of Python, and no bash; auto is the first where it works, "
        "else the second.",
    )
    packages: Packages | None = Field(
        default=None,
        description="Installed packages that Python may import, by the names of their distributions, with all that "
        "they need; for CPython only. By default numpy and pandas, where they are installed.",
    )

    @property
    def limits(self) -> RunLimits:
        """The limits, in the form that is sent to a child."""
        return RunLimits(
            seconds=self.seconds,
            memory_bytes=self.memory_bytes,
            output_bytes=self.output_bytes,
            max_files=self.max_files,
            max_bytes=self.max_bytes,
        )


class Left(TypedDict):
    path: Annotated[str, Field(description="The file's path.")]
    reason: Annotated[str, Field(description="Why it was left out.")]


class FileChanges(TypedDict):
    shown: Annotated[
        bool, Field(description="Whether the code saw the session's files; without permission to read it saw none.")
    ]
    kept: Annotated[
        bool, Field(description="Whether changes were written back: not without permission, nor after a stop.")
    ]
    created: Annotated[list[str], Field(description="Paths that are new in the session's files.")]
    updated: Annotated[list[str], Field(description="Paths whose content was replaced.")]
    deleted: Annotated[list[str], Field(description="Paths that are gone.")]
    not_kept: Annotated[list[Left], Field(description="Changes that were not written back, such as conflicts.")]
    not_shown: Annotated[list[Left], Field(description="Session files that the code could not be shown.")]


class ExecutionResult(TypedDict):
    language: Annotated[Language, Field(description="The language of the code.")]
    backend: Annotated[Backend, Field(description="What ran it.")]
    code_sha256: Annotated[str, Field(description="The SHA-256 of the code's UTF-8, as the record has it too.")]
    stdout: Annotated[str, Field(description="What was printed.")]
    stderr: Annotated[str, Field(description="What was printed as errors.")]
    exit_code: Annotated[
        int | None,
        Field(description="0 is success. Bash's own status; 1 for an exception in Python. Null if it did not end."),
    ]
    value: Annotated[
        str | None, Field(description="Python: the repr of the last line's expression, if it is not None.")
    ]
    error: Annotated[str | None, Field(description="The traceback of Python, or why it refused the code.")]
    stopped: Annotated[
        Stopped | None,
        Field(description="The limit that ended the run, or crash. Null if the code ended by itself."),
    ]
    truncated: Annotated[bool, Field(description="Whether a text here goes on beyond what is shown.")]
    files: Annotated[FileChanges, Field(description="What became of the session's files.")]
    duration_ms: Annotated[int, Field(description="How long it took, the start of the process included.")]

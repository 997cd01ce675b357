"""Configuration of the sandbox: the limits of one run."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from capset.builtin.sandbox.child.frames import RunLimits

_MIB: Final = 1 << 20
MAX_SECONDS: Final = 300


class SandboxConfig(BaseModel):
    """What one run may take, by ``sandbox.with_config(SandboxConfig(…))``. Every limit has a highest value."""

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

    @property
    def limits(self) -> RunLimits:
        """The limits as a child is told them."""
        return RunLimits(
            seconds=self.seconds,
            memory_bytes=self.memory_bytes,
            output_bytes=self.output_bytes,
            max_files=self.max_files,
            max_bytes=self.max_bytes,
        )

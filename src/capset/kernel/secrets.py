"""Secrets from the environment: what a kernel asks unless it is given another port."""

from __future__ import annotations

import os


class EnvironmentSecrets:
    """The ``Secrets`` of the process: the environment variable of the same name."""

    async def get(self, name: str) -> str | None:
        """Return a variable, or ``None`` if it is not set."""
        return os.environ.get(name)

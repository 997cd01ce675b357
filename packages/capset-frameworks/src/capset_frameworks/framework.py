"""The framework of an adapter: the tested version, and errors and warnings if that is not installed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from capset.extras import install_command


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework: its distribution, its module, and the version that the adapter's tests run on.

    ``extra`` is capset's extra that installs it, if any. A version counts as tested if it is in the same major series,
    or below 1.0 in the same minor series.
    """

    distribution: str
    module: str
    tested: str
    extra: str | None = None

    @contextmanager
    def importing(self) -> Generator[None]:
        """Wrap imports from the framework, so that a failed import says what to install.

        Raises ``ModuleNotFoundError`` if it is not installed, and ``ImportError`` if the installed version lacks
        something that the adapter uses.
        """
        try:
            yield
        except ImportError as error:
            is_missing = isinstance(error, ModuleNotFoundError)
            if is_missing and f"{self.module}.".startswith(f"{error.name}."):
                raise ModuleNotFoundError(
                    f"This adapter needs {self.distribution} {self.tested}, which is not installed: {self._command()}",
                    name=error.name,
                ) from None
            if is_missing and not f"{error.name}.".startswith(f"{self.module}."):
                raise  # a dependency of the framework, which the message names
            raise ImportError(
                f"This adapter is for {self.distribution} {self.tested}; {self.installed()} is installed, and lacks "
                f"something that it uses ({error}): {self._command()}",
                name=error.name,
            ) from error

    def warn_if_untested(self) -> None:
        """Warn if the installed version belongs to a series that was not tested."""
        installed = self.installed()
        if installed is not None and _series(installed) != _series(self.tested):
            warnings.warn(
                f"This adapter was tested with {self.distribution} {self.tested}; {installed} is installed. If calls "
                f"fail: {self._command()}",
                RuntimeWarning,
                stacklevel=3,
            )

    def installed(self) -> str | None:
        """Return the installed version, or ``None``."""
        return _installed(self.distribution)

    def _command(self) -> str:
        if self.extra is not None:
            return install_command(self.extra)
        return f"pip install '{self.distribution}=={self.tested}'"


@cache  # it takes a millisecond, and adapters call it for every run
def _installed(distribution: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # a slow import

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _series(version: str) -> list[str]:
    numbers = re.findall(r"\d+", version)
    return numbers[:1] if numbers[:1] != ["0"] else numbers[:2]

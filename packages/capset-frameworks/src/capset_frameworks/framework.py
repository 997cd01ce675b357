"""A framework that an adapter is for: which version was tested, and what to say where that is not installed."""

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
    """A framework, by its distribution, its module, and the version that the adapter's tests run on.

    ``extra`` is the extra of capset that installs it, if there is one. A version counts as tested if it is in the same
    major series, or in the same minor series below 1.0.
    """

    distribution: str
    module: str
    tested: str
    extra: str | None = None

    @contextmanager
    def importing(self) -> Generator[None]:
        """Import from the framework; an import that fails says what to install.

        Raises ``ModuleNotFoundError`` if it is not installed, and ``ImportError`` if the installed version has not what
        the adapter uses.
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
                raise  # a package that the framework itself needs, which the message names
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


@cache  # it takes a millisecond, and adapters ask for every run
def _installed(distribution: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # a slow import

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _series(version: str) -> list[str]:
    numbers = re.findall(r"\d+", version)
    return numbers[:1] if numbers[:1] != ["0"] else numbers[:2]

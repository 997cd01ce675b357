"""Configuration of a host's databases (spec 4, G30)."""

from __future__ import annotations

from typing import Annotated, Final, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

SQLITE: Final = "sqlite"
SCHEMES: Final = {"sqlite": SQLITE, "postgresql": "postgresql", "postgres": "postgresql"}
"""The engine of each URL scheme."""
_SECRET: Final = ("password", "sslpassword", "oauth_client_secret")

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,49}$")]
FunctionNames = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=63)], ...], Field(max_length=1_000)]


class DatabaseConnection(BaseModel):
    """One database. Exactly one of ``url`` and ``secret`` is given."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)  # a URL may contain a password by mistake

    url: str | None = Field(
        default=None,
        description="sqlite:///FILE, or postgresql://USER@HOST/DATABASE without a password: config is shown.",
    )
    secret: str | None = Field(
        default=None, description="The secret whose value is the URL, one that the capability declares."
    )
    description: str = Field(default="", description="What the database holds, for the model.")

    @model_validator(mode="after")
    def check(self) -> Self:
        """Raise ``ValueError`` for an invalid connection, or for a URL with a password, which would be shown."""
        if (self.url is None) is (self.secret is None):
            raise ValueError("give either url or secret")
        if self.url is not None:
            engine_of(self.url)
            parts = urlsplit(self.url)
            if parts.password or any(name in _SECRET for name, _ in parse_qsl(parts.query)):
                raise ValueError("a URL with a password must be a secret, since config is stored and shown")
        return self


class DatabaseConfig(BaseModel):
    """Configuration of ``database``: the connections, and the limits of one call."""

    model_config = ConfigDict(frozen=True)

    connections: dict[Name, DatabaseConnection] = Field(
        default={}, description="The databases that may be asked, by the name that db_query takes."
    )
    max_rows: int = Field(default=1_000, ge=1, le=100_000, description="How many rows one call returns at most.")
    max_bytes: int = Field(
        default=1 << 20, ge=1024, le=1 << 26, description="How many bytes of JSON the rows of one call have at most."
    )
    seconds: float = Field(default=10.0, gt=0, le=600, description="How long one query may run.")
    functions: FunctionNames = Field(
        default=(),
        description="Functions of PostgreSQL databases that a query may call beside the ordinary ones, by their names "
        "without a schema, as pg_proc has them.",
    )


def engine_of(url: str) -> str:
    """Return ``sqlite`` or ``postgresql``. Raises ``ValueError``, without repeating the URL, for any other engine."""
    scheme, _, rest = url.partition("://")
    engine = SCHEMES.get(scheme)
    if engine is None:
        raise ValueError("the URL of a database begins with sqlite:/// or postgresql://")
    if engine == SQLITE:
        path = rest.removeprefix("/")
        if not rest.startswith("/") or path in ("", ":memory:") or "?" in path:
            raise ValueError("SQLite has a URL like sqlite:///FILE, with no options: the file is only read")
    return engine

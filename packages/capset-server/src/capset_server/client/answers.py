"""Parsing of a server's responses: as a wire shape, or as the error they carry."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

import httpx2
from pydantic import ValidationError

from capset.errors import CapsetError, DefinitionError, ForeignAnswer, Unreachable
from capset.wire.calls import CallShape
from capset.wire.errors import MEDIA_TYPE, Problem
from capset.wire.shapes import Shape
from capset_server.client.failures import error_of

S = TypeVar("S", bound=Shape)
JSON: Final = "application/json"
_NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_NOT_READABLE: Final = (httpx2.SSEError, httpx2.DecodingError)


class Answers:
    """Parses the responses of the server at ``url``."""

    def __init__(self, url: httpx2.URL) -> None:
        self._url = url

    def parsed(self, shape: type[S], content: bytes | str) -> S:
        """Parse a wire shape, without members that only a newer server knows. Raises ``ForeignAnswer``."""
        try:
            return shape.model_validate_json(content, extra="ignore")
        except ValidationError:
            raise self.foreign(f"did not answer with a {shape.__name__}: is it a compatible capset server?") from None

    def foreign(self, message: str) -> ForeignAnswer:
        """Return the error for a response that capset would not give."""
        return ForeignAnswer(f"{self._url} {message}")

    def failure(self, response: httpx2.Response) -> CapsetError:
        """Return the error of a complete error response."""
        if media_type_of(response) == MEDIA_TYPE:
            return error_of(self.parsed(Problem, response.content))
        if response.has_redirect_location:
            location = response.headers["location"][:200]
            return self.foreign(f"redirects to {location!r}, which is not followed, so that the key is not sent there")
        return self.foreign(f"answered {response.status_code}, but not as capset does")

    def call(self, response: httpx2.Response) -> CallShape:
        """Return the call in a complete response, even if its session refused it; raise any other error."""
        # Older servers answer a refused call with the call's own object alone: JSON without problem details.
        if response.is_success or media_type_of(response) == JSON:
            return self.parsed(CallShape, response.content)
        if media_type_of(response) == MEDIA_TYPE:
            with suppress(ValidationError):  # a problem of the request alone: no call was made
                return CallShape.model_validate_json(response.content, extra="ignore")
        raise self.failure(response)

    @contextmanager
    def named(self, *, safe: bool) -> Generator[None]:
        """Convert HTTP errors to capset's own. Only requests that are ``safe`` or were never sent are retryable."""
        try:
            yield
        except _NEVER_SENT as error:
            raise Unreachable(f"cannot reach {self._url}: {_why(error)}") from None
        except _NOT_READABLE as error:
            raise self.foreign(f"sent a response that cannot be read: {_why(error)}") from None
        except httpx2.TransportError as error:
            raise self.broken(_why(error), safe=safe) from None
        except httpx2.InvalidURL as error:
            raise DefinitionError(f"invalid request URL: {error}") from None

    def broken(self, why: str, *, safe: bool) -> Unreachable:
        """Return the error for a broken connection; the outcome of its request is unknown."""
        error = Unreachable(f"the connection to {self._url} broke: {why}")
        error.retryable = safe
        return error


def media_type_of(response: httpx2.Response) -> str:
    """Return the media type of a response, without its parameters."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _why(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__

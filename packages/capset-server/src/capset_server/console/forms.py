"""Forms as browsers send them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl

from capset.errors import InvalidArguments
from capset_server.http.request_rules import HttpRefusal

_FIELDS: Final = 2_000
_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"


class Form(Mapping[str, str]):
    """The fields of a form: ``form["note"]`` is a field's last value, ``form.every("tag")`` are all its values."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self._fields = tuple(fields)
        self._last = dict(self._fields)

    def __getitem__(self, name: str) -> str:
        return self._last[name]

    def __iter__(self):
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All fields with their values, in order."""
        return self._fields

    def every(self, name: str) -> list[str]:
        """Return all values of a field, in their order."""
        return [value for key, value in self._fields if key == name]

    def text(self, name: str) -> str | None:
        """Return a field, stripped and with Unix line endings; ``None`` if it is absent or empty."""
        return unix_lines(self._last.get(name, "")).strip() or None


def unix_lines(text: str) -> str:
    """Convert the line endings that browsers send to Unix ones."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_form(content: bytes, media_type: str) -> Form:
    """Parse a form; an empty body is an empty form. Raises ``HttpRefusal`` if it is not a form."""
    if not content:
        return Form(())
    if media_type.partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise HttpRefusal(415, "unsupported_media_type", f"A form must be {_MEDIA_TYPE}")
    try:
        fields = parse_qsl(
            content.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_FIELDS,
            strict_parsing=True,
            errors="strict",
        )
    except ValueError:
        raise HttpRefusal(400, "invalid_form", "The form cannot be read") from None
    return Form(fields)


def number(form: Mapping[str, str], name: str) -> int | None:
    """Return a whole number in a form, ``None`` for an empty field. Raises ``InvalidArguments``."""
    text = form.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise InvalidArguments(f"Invalid {name}: a whole number is expected; got {text!r:.40}")
    return int(text)

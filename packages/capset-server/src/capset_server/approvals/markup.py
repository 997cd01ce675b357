"""HTML from templates and values. All escaping happens here."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from typing import Final

from capset_connect.legible_text import legible

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "dt{font-weight:600;margin-top:.6rem}dd{margin:0;overflow-wrap:anywhere}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:.6rem}"
    "input,button,textarea{font:inherit;padding:.3rem .6rem;margin:.3rem .3rem .3rem 0}"
    "textarea,input[type=password]{width:100%;box-sizing:border-box}"
)


class Markup(str):
    """HTML that is sent without further escaping."""

    __slots__ = ()


def html(template: str, **values: str) -> Markup:
    """Fill in a template: ``Markup`` values unchanged, other text made legible and escaped."""
    escaped = {name: value if isinstance(value, Markup) else escape(legible(value)) for name, value in values.items()}
    return Markup(template.format_map(escaped))


def joined(*parts: Markup) -> Markup:
    """Concatenate pieces of HTML."""
    return Markup("".join(parts))


def page(title: str, *parts: Markup) -> bytes:
    """Return a complete HTML page."""
    document = html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">'
        "<style>{style}</style></head><body><main><h1>{title}</h1>{body}</main></body></html>",
        title=title,
        style=Markup(_STYLE),
        body=joined(*parts),
    )
    return document.encode(errors="replace")


@cache
def headers() -> tuple[tuple[bytes, bytes], ...]:
    """Return the security headers of every page: no scripts, frames, external content or referrer to other sites.

    With the policy ``no-referrer``, browsers would send forms without their origin.
    """
    style = b64encode(sha256(_STYLE.encode()).digest())
    policy = (
        b"default-src 'none'; style-src 'sha256-%b'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        % style
    )
    return (
        (b"content-security-policy", policy),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    )

"""An API that takes files and answers with what arrived, and sessions that send them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from starlette.datastructures import UploadFile

from capset import Agent, Kernel, Principal
from capset_connect.openapi import open_apis
from capset_connect.openapi.api import OpenApi
from capset_connect.openapi.document import document_of
from capset_connect.openapi.operations import offers_of
from capset_connect.pins.offers import Offer
from tests.helpers.connect.openapi.support import Site, There

BYTES = b"\x89PNG\r\n--\x00\xff"
FILE: dict[str, Any] = {"type": "string", "format": "binary"}
FORM: dict[str, Any] = {
    "schema": {
        "type": "object",
        "required": ["picture"],
        "properties": {
            "picture": {**FILE, "description": "A picture."},
            "pages": {"type": "array", "items": FILE},
            "report": {"type": "string", "contentMediaType": "application/octet-stream"},
            "title": {"type": "string"},
            "count": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "meta": {"type": "object"},
            "list": {"type": "array", "items": {"type": "integer"}},
            "etag": {**FILE, "readOnly": True},
        },
        "additionalProperties": {"type": "string"},
    },
    "encoding": {"report": {"contentType": "application/pdf"}, "list": {"contentType": "application/json"}},
}
WHOLE: dict[str, Any] = {"type": "string", "format": "binary"}
READ = "session_files:read"


def document(form: dict[str, Any] = FORM) -> dict[str, Any]:
    """Return a document with an operation that takes a form, and one whose body is a file."""
    return {
        "openapi": "3.1.0",
        "servers": [{"url": "https://files.example"}],
        "paths": {
            "/form": {"post": {"operationId": "send", "requestBody": {"content": {"multipart/form-data": form}}}},
            "/whole": {
                "put": {
                    "operationId": "put",
                    "requestBody": {"required": True, "content": {"image/png": {"schema": WHOLE}}},
                }
            },
        },
    }


def offered(form: dict[str, Any], version: str = "3.1.0") -> Offer:
    """Return the operation that takes a form, in a document of a version."""
    offers = offers_of(OpenApi(name="files", document={}), document_of({**document(form), "openapi": version}))
    return next(offer for offer in offers if offer.name == "send")


def parts_app() -> FastAPI:
    """Return an API that answers with the parts of a form as Starlette reads them, or with the length of a body."""
    app = FastAPI()

    @app.post("/form")
    async def form(request: Request) -> list[dict[str, Any]]:
        async with request.form() as fields:
            return [
                {
                    "name": name,
                    "file": field.filename,
                    "type": field.content_type,
                    "headers": sorted(field.headers),
                    "content": (await field.read()).decode("latin-1"),
                }
                if isinstance(field, UploadFile)
                else {"name": name, "text": field}
                for name, field in fields.multi_items()
            ]

    @app.put("/whole")
    async def measure(request: Request) -> dict[str, Any]:
        return {"length": len(await request.body()), "type": request.headers["content-type"]}

    return app


@asynccontextmanager
async def sending(
    remote: There, form: dict[str, Any] = FORM, permissions: tuple[str, ...] = (READ,), **options: Any
) -> AsyncGenerator[Site]:
    """Open a session with both operations."""
    api = OpenApi(
        name="files", document=document(form), url=remote.url, internal=[remote.host], trust_first_use=True, **options
    )
    async with (
        Kernel(store="memory://") as kernel,
        open_apis(kernel, [api]) as (capability,),
        kernel.open(Agent("sender", uses=[capability]), principal=Principal("ada", permissions=permissions)) as session,
    ):
        yield Site(kernel, capability, session)


def encoded(data: bytes, name: str | None = None) -> dict[str, str]:
    upload = {"base64": b64encode(data).decode()}
    return upload if name is None else {**upload, "name": name}

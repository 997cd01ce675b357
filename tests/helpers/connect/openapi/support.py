"""An API that listens on this machine and notes its requests, and sessions with its operations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI, Form, Header, HTTPException, Request, Response, UploadFile
from fastapi.responses import PlainTextResponse, RedirectResponse
from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capset import Agent, Kernel, Principal
from capset.definitions.capabilities import AnyCapability
from capset.definitions.tools.definition import AnyTool
from capset.kernel.call.session import Session
from capset_connect.openapi import OpenApi, open_apis
from capset_server.http.uvicorn_server import bind

ADA = Principal("ada")


@dataclass(frozen=True)
class Got:
    """A request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class There:
    """A server that listens on this machine, and the requests that it got, apart from those for its document."""

    port: int = 0
    got: list[Got] = field(default_factory=list[Got])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def last(self) -> Got:
        return self.got[-1]


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncGenerator[There]:
    remote, bound = There(), bind("127.0.0.1", 0)
    remote.port = bound.getsockname()[1]

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/openapi.json":
            await app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        query = scope["query_string"].decode()
        target = scope["raw_path"].decode() + (f"?{query}" if query else "")
        remote.got.append(Got(scope["method"], target, dict(Request(scope).headers), body))

        async def replay() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await app(scope, replay, send)

    server = uvicorn.Server(uvicorn.Config(noting, log_level="warning", timeout_graceful_shutdown=1))
    running = asyncio.create_task(server.serve([bound]))
    try:
        yield remote
    finally:
        server.should_exit = True
        await running


@contextmanager
def serving_beside(app: ASGIApp) -> Generator[There]:
    """Serve from a thread: for tests that wait for commands."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving(app)) as remote:
        yield remote


class Pet(BaseModel):
    name: str
    weight: float = 1.0
    friends: list[Pet] = []


def pets(describe: Callable[[], str] = lambda: "Get a pet.") -> FastAPI:
    """Return an API of pets, whose document is of OpenAPI 3.1; ``describe`` is asked for each document."""
    app = FastAPI(title="Pets")

    @app.get("/pets/{pet_id}", operation_id="get_pet", tags=["reading"])
    async def get_pet(pet_id: str, verbose: bool = False) -> dict[str, Any]:
        if pet_id == "gone":
            raise HTTPException(404, f"there is no pet {pet_id}")
        if pet_id == "busy":
            raise HTTPException(503, "come again", headers={"Retry-After": "7"})
        return {"id": pet_id, "verbose": verbose}

    @app.get("/pets/{pet_id}/secret", operation_id="get_secret")
    async def get_secret(pet_id: str) -> str:
        return f"the secret of {pet_id}"

    @app.post("/pets", operation_id="add_pet", status_code=201)
    async def add_pet(pet: Pet) -> Pet:
        return pet

    @app.delete("/pets/{pet_id}", operation_id="delete_pet", status_code=204)
    async def delete_pet(pet_id: str) -> None:
        return None

    @app.post("/pets/{pet_id}/picture", operation_id="add_picture")
    async def add_picture(pet_id: str, picture: UploadFile, note: str = Form("")) -> dict[str, Any]:
        return {"name": picture.filename, "type": picture.content_type, "size": picture.size, "note": note}

    @app.head("/pets/{pet_id}", operation_id="look")
    async def look(pet_id: str, response: Response) -> None:
        response.headers["X-Weight"] = "7"
        response.set_cookie("sid", "abc")

    @app.post("/slow", operation_id="slow")
    async def slow(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @app.get("/me", operation_id="me")
    async def me(x_trace: str = Header("none"), authorization: str = Header("")) -> dict[str, str]:
        return {"trace": x_trace, "told": authorization}

    @app.get("/kinds/{kind}", operation_id="kind")
    async def kind(kind: str) -> Response:
        answers = {
            "text": PlainTextResponse("hello"),
            "image": Response(b"\x89PNG\0" * 10, media_type="image/png"),
            "large": PlainTextResponse("x" * 100_000),
            "broken": Response('{"a": ', media_type="application/json"),
            "empty": Response(status_code=204),
            "unsaid": Response(b"plain"),
            "nan": Response('{"a": NaN}', media_type="application/json"),
            "twice": Response('{"a": 1, "a": 2}', media_type="application/problem+json"),
            "deep": Response("[" * 150 + "]" * 150, media_type="application/json"),
            "lone": Response('["\\ud800"]', media_type="application/json"),
            "lines": Response('{"a": 1}\n{"a": 2}\n', media_type="application/x-ndjson"),
            "feed": Response("<feed/>", media_type="application/atom+xml"),
            "near": RedirectResponse("/kinds/text", 307),
            "long": Response("word " * 2_000, 418, media_type="text/plain"),
        }
        return answers.get(kind) or Response(status_code=400)

    usual = app.openapi

    def openapi() -> dict[str, Any]:
        app.openapi_schema = None
        document = usual()
        document["paths"]["/pets/{pet_id}"]["get"]["description"] = describe()
        return document

    app.openapi = openapi
    return app


@dataclass(frozen=True)
class Named:
    """Secrets by name."""

    values: Mapping[str, str]

    async def get(self, name: str) -> str | None:
        return self.values.get(name)


no_secret = Named({})


@dataclass
class Site:
    """A session of an agent with the operations of an API, and the kernel behind it."""

    kernel: Kernel
    capability: AnyCapability
    session: Session

    def tool(self, name: str) -> AnyTool:
        return next(tool for tool in self.capability.every_tool if tool.name == name)

    async def call(self, name: str, **arguments: Any) -> Any:
        return await self.session.call(self.tool(name), **arguments)


@asynccontextmanager
async def opened(
    api: OpenApi, store: str = "memory://", secrets: Mapping[str, str] | None = None
) -> AsyncGenerator[Site]:
    async with (
        Kernel(store=store, secrets=Named(secrets or {})) as kernel,
        open_apis(kernel, [api]) as (capability,),
        kernel.open(Agent("keeper", uses=[capability]), principal=ADA) as session,
    ):
        yield Site(kernel, capability, session)


def declared(remote: There, **options: Any) -> OpenApi:
    """Return the declaration of an API at a server, trusted at its first use."""
    settings: dict[str, Any] = {
        "name": "pets",
        "document": f"{remote.url}/openapi.json",
        "internal": [remote.host],
        "trust_first_use": True,
        **options,
    }
    return OpenApi(**settings)


def document(**operation: Any) -> dict[str, Any]:
    """Return a document of 3.0 with one operation, ``find``, at ``/things``."""
    return {
        "openapi": "3.0.3",
        "info": {"title": "Things", "version": "1"},
        "servers": [{"url": "https://things.example/v1"}],
        "paths": {"/things": {"get": {"operationId": "find", "responses": {}, **operation}}},
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "asked": {"type": "apiKey", "in": "query", "name": "key"},
                "baked": {"type": "apiKey", "in": "cookie", "name": "sid"},
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "Basic"},
                "oauth": {"type": "oauth2", "flows": {}},
                "tls": {"type": "mutualTLS"},
            }
        },
    }


def echo() -> FastAPI:
    """Return an API that answers with the headers and the target of each request."""
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def anything(request: Request) -> dict[str, Any]:
        return {"headers": dict(request.headers), "query": str(request.url.query)}

    return app


def things(remote: There, data: dict[str, Any], **options: Any) -> OpenApi:
    settings: dict[str, Any] = {"url": remote.url, "internal": [remote.host], "trust_first_use": True, **options}
    return OpenApi(name="things", document=data, **settings)

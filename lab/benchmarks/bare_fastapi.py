"""A FastAPI application that answers the same request with the same answer, and does nothing else."""

from __future__ import annotations

import socket
import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Call(BaseModel):
    """What a client sends."""

    tool: str
    arguments: dict[str, int]


class Answer(BaseModel):
    """What it gets, with as many members as the answer to a governed call has."""

    status: str
    result: int
    call_id: str
    duration_ms: float


@app.post("/v1/sessions/{id}/calls")
async def call(id: str, request: Call) -> Answer:
    """Add two numbers."""
    return Answer(
        status="success", result=request.arguments["a"] + request.arguments["b"], call_id=id, duration_ms=0.01
    )


def main() -> None:
    """Serve on a free port as ``uvicorn`` does, without an access log, and print the address on stderr."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()  # before the address is told: connections wait until uvicorn has started
        print(f"bare FastAPI serves http://127.0.0.1:{bound.getsockname()[1]}", file=sys.stderr, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([bound])


if __name__ == "__main__":
    main()

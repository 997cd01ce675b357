"""An agent whose calls wait for approvals, its server, and its callers."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict, computed_field
from pydantic.alias_generators import to_camel

from capset import Agent, Capability, Context, Principal, tool
from capset.ext import Answer
from tests.helpers.server.mcp.tasking import Tasker
from tests.helpers.server.support import Site, site
from tests.waiting import until

BOSS = Principal("boss", org="acme")
YES = Answer(approved=True)
done: list[Any] = []
gate = threading.Event()  # of no loop: each module of tests has its own


class Sure(BaseModel):
    sure: bool


@tool(effect="write", approval="ask")
async def pay(to: str, amount: int = 5) -> str:
    """Pay somebody."""
    done.append((to, amount))
    return f"{to} has {amount}"


@tool(effect="write", approval="ask")
async def login(name: str, password: str) -> str:
    """Log in."""
    done.append((name, password))
    return name


@tool(effect="write", approval="ask")
async def slow(to: str) -> str:
    """Pay slowly."""
    done.append(("started", to))
    await until(gate.is_set)
    done.append(("ended", to))
    return f"{to} is paid"


@tool(effect="write", approval="ask")
async def large(size: int) -> str:
    """Say a lot."""
    return "x" * size


@tool(effect="write", approval="ask", limits="1/1h")
async def seldom(to: str) -> str:
    """Pay once an hour."""
    return to


class Order(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    article_name: str
    how_many: int = 1


class Parcel(BaseModel):
    grams: int

    @computed_field
    @property
    def kilograms(self) -> float:
        """The same in kilograms."""
        return self.grams / 1000


@tool(effect="write", approval="ask")
async def buy(order: Order) -> str:
    """Buy something."""
    done.append((order.article_name, order.how_many))
    return f"{order.how_many} {order.article_name}"


@tool(effect="write", approval="ask")
async def send(parcel: Parcel) -> str:
    """Send a parcel."""
    done.append(parcel.grams)
    return f"{parcel.kilograms} kg"


@tool(effect="write", approval="ask")
async def asks(ctx: Context) -> str:
    """Ask."""
    return (await ctx.ask_client("sure", "Sure?", Sure)).action


@tool(effect="read")
async def relay(ctx: Context, to: str) -> str:
    """Pay by way of another tool."""
    return await ctx.call(pay, to=to)


teller = Agent("teller", uses=[Capability("desk", tools=[pay, login, slow, large, seldom, buy, send, asks, relay])])


@asynccontextmanager
async def bank(**options: Any) -> AsyncGenerator[Site]:
    """Serve the teller to ``ada`` and ``bob`` of ``acme``, and to ``spy`` of another organisation."""
    async with site(agents=[teller], **options) as server:
        for name, org in (("bob", "acme"), ("spy", "other")):
            await server.key(name, org=org, scopes=["capset:call"])
        yield server


async def caller(server: Site, user: str = "ada", *, own: bool = True, **options: Any) -> Tasker:
    """Return a caller of the server; with a session of ``own``, or the one with the agent."""
    url = f"{server.url}/mcp/agents/teller"
    if own:
        async with server.client(user) as client:
            response = await client.post("/v1/sessions", json={"agent_id": "teller"})
            assert response.status_code == 201, response.text
            url = f"{server.url}/mcp/sessions/{response.json()['id']}"
    return Tasker(url, server.keys[user], **options)


def approval_of(task: dict[str, Any]) -> str:
    return task["taskId"].partition(".")[0]


async def decide(server: Site, task: dict[str, Any], answer: Answer = YES) -> None:
    await server.kernel.approvals.decide(approval_of(task), answer, by=BOSS)

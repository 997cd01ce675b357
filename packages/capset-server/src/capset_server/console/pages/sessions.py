"""Pages for the caller's sessions: the list, and the conversation, state, context and version of each."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from capset.errors import InvalidArguments
from capset_server.console.forms import number
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.pages.conversations import WINDOW, read_conversation, runner_refusal

_AGENTS: Final = 20
_TOOLS: Final = 50
_TRANSITIONS: Final = 100


async def list_sessions(page: PageRequest) -> Response:
    """List the caller's sessions, newest first, optionally those with one agent."""
    agent, text = page.query.get("agent_id"), page.query.get("text")
    sessions = await page.api.get("sessions", agent_id=agent, text=text, cursor=page.query.get("cursor"))
    return page.render("sessions/list.html", found=sessions, agent=agent, text=text)


async def new_session(page: PageRequest) -> Response:
    """Show the agents that a session can be started with, filtered by a text; an agent named by a link comes first."""
    text, agent = page.query.get("text"), page.query.get("agent_id", "")
    agents = await page.api.find("agents", limit=_AGENTS, status="active", text=text, cursor=page.query.get("cursor"))
    named = await page.api.find("agents", agent) if agents and agent and not text else None
    if named is not None and named["status"] == "active":
        others = [candidate for candidate in agents["items"] if candidate["id"] != named["id"]]
        agents = {**agents, "items": [named, *others]}
    template = "sessions/agents.html" if page.is_fragment else "sessions/new.html"
    return page.render(template, found=agents, text=text, agent=agent)


async def create_session(page: PageRequest) -> Response:
    """Create a session with an agent, and redirect to it."""
    agent = page.form.text("agent_id")
    if agent is None:
        raise InvalidArguments("Invalid session: an agent is expected", hint="choose one from the list")
    session = await page.api.send("POST", "sessions", body={"agent_id": agent})
    return page.redirect("sessions", session["id"])


async def show_session(page: PageRequest) -> Response:
    """Show the conversation of a session, with a side pane for its tools, files, data and context."""
    session = await page.api.get("sessions", page.params["id"])
    newest = min(number(page.query, "newest") or WINDOW, 10_000)
    conversation, start = await read_conversation(page, newest)
    return page.render(
        "sessions/chat.html",
        session=session["id"],
        found=session,
        conversation=conversation,
        start=start,
        newest=newest,
        refusal=runner_refusal(page),
        once=page.service.kernel.new_id(),
        said="",
    )


async def show_state(page: PageRequest) -> Response:
    """Show the state that the agent's capabilities expose."""
    session = page.params["id"]
    return page.render("sessions/state.html", session=session, state=await page.api.get("sessions", session, "state"))


async def show_context(page: PageRequest) -> Response:
    """Show the text and the tools that a model gets in a session, and why each tool is in play or not."""
    session = page.params["id"]
    snapshot = await page.api.get("sessions", session, "snapshot")
    tools = await page.api.get("sessions", session, "tools", limit=_TOOLS, cursor=page.query.get("cursor"))
    return page.render("sessions/context.html", session=session, snapshot=snapshot, tools=tools)


async def show_about(page: PageRequest) -> Response:
    """Show the owner of a session, the version of its agent, and the changes of its runtime hash."""
    session = await page.api.get("sessions", page.params["id"])
    versions: Any = None
    if session["agent_id"] is not None:
        versions = await page.api.find("agents", session["agent_id"], "versions")
    transitions = await page.api.get("sessions", session["id"], "transitions")
    newest = transitions["items"][-_TRANSITIONS:]
    return page.render(
        "sessions/about.html", session=session["id"], found=session, versions=versions, transitions=newest
    )


async def move_session(page: PageRequest) -> Response:
    """Move a session to another version of its agent, unless it was moved since the form was shown."""
    session, version = page.params["id"], number(page.form, "version")
    headers = {"if-match": f'"{seen_version}"'} if (seen_version := number(page.form, "seen")) else {}
    moved = await page.api.send("PATCH", "sessions", session, body={"agent_version": version}, headers=headers)
    return page.redirect("sessions", session, "about", told=f"The session now uses version {moved['agent_version']}.")


async def delete_session(page: PageRequest) -> Response:
    """Delete a session."""
    await page.api.send("DELETE", "sessions", page.params["id"])
    return page.redirect("sessions", told="The session was deleted with its files. Its records are kept.")


ROUTES = (
    PageRoute("GET", "/sessions", list_sessions),
    PageRoute("POST", "/sessions", create_session),
    PageRoute("GET", "/sessions/new", new_session),
    PageRoute("GET", "/sessions/{id}", show_session),
    PageRoute("GET", "/sessions/{id}/state", show_state),
    PageRoute("GET", "/sessions/{id}/context", show_context),
    PageRoute("GET", "/sessions/{id}/about", show_about),
    PageRoute("POST", "/sessions/{id}/move", move_session),
    PageRoute("POST", "/sessions/{id}/delete", delete_session),
)

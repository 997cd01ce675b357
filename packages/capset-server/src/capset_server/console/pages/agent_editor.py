"""The editor of agents: a form, and beside it what would come of it and how that differs from what is saved."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from capset.errors import Field, InvalidArguments
from capset_server.console.agent_forms import (
    VERSION,
    Details,
    Typed,
    agent_of,
    form_of,
    id_of,
    ids_in,
    keys_in,
    merge_agents,
    moved,
    patch_between,
    read_agent,
    show_agent,
    with_capability,
    with_version,
    without,
)
from capset_server.console.api import RestRefusal
from capset_server.console.forms import Form, number
from capset_server.console.page import PageRequest, PageRoute
from capset_server.http.etags import tag_of

_FOUND: Final = 8
"""The capabilities that a search shows."""
_OUTDATED: Final = 412
Data = Mapping[str, Any]  # JSON data


@dataclass(frozen=True, slots=True)
class Editing:
    """A form that is being edited: the agent as it is now, and as it was when the form was made of it.

    Both are ``None`` for a new agent. ``said`` is what was done to the form, for those who do not see it.
    """

    form: Form
    details: Details
    now: Data | None = None
    base: Data | None = None
    said: str = ""

    @property
    def id(self) -> str | None:
        """The id of the agent, ``None`` for a new one."""
        return None if self.now is None else str(self.now["id"])

    @property
    def is_outdated(self) -> bool:
        """Whether somebody has saved another version than the one that the form was made of."""
        return self.now is not None and self.base is not None and self.now["version"] != self.base["version"]

    def typed(self) -> Typed:
        """Return what the form says."""
        return read_agent(self.form, self.details, None if self.base is None else agent_of(self.base))


async def new_agent(page: PageRequest) -> Response:
    """Show the empty form."""
    return await _show(page, Editing(form_of({}, {}), {}))


async def edit_agent(page: PageRequest) -> Response:
    """Show the form of an agent as it is."""
    now = await page.api.get("agents", page.params["id"])
    if now["read_only"]:
        return page.redirect("agents", now["id"], told="This agent is defined in code, and changes there.")
    agent = agent_of(now)
    details = await _details(page, map(id_of, agent.get("capabilities", ())))
    return await _show(page, Editing(form_of(agent, details, version=now["version"]), details, now, now))


async def send_new(page: PageRequest) -> Response:
    """Make an agent of the form, or do to the form what its button says."""
    details = await _details(page, ids_in(page.form))
    return await _answer(page, Editing(page.form, details))


async def send_change(page: PageRequest) -> Response:
    """Save the form as the next version of its agent, or do to the form what its button says."""
    agent_id = page.params["id"]
    now, details = await asyncio.gather(page.api.get("agents", agent_id), _details(page, ids_in(page.form)))
    version = number(page.form, VERSION) or now["version"]
    base = now if version == now["version"] else await page.api.get("agents", agent_id, "versions", str(version))
    return await _answer(page, Editing(page.form, details, now, base))


async def _answer(page: PageRequest, editing: Editing) -> Response:
    action, _, about = page.form.get("do", "").partition(":")
    match action:
        case "save":
            return await _save(page, editing)
        case "overwrite" if editing.now is not None and about == str(editing.now["version"]):
            return await _save(page, _at(editing, editing.now))
        case "merge" if editing.now is not None:
            return await _show(page, await _merged(page, editing, editing.now))
        case "add":
            return await _show(page, await _added(page, editing, about or page.form.get("add", "").strip()))
        case "up" | "down":
            return await _show(page, _moved(editing, about, -1 if action == "up" else 1))
        case "remove":
            name = editing.form.get(f"{about}-id", "")
            return await _show(page, _with(editing, without(editing.form, about), f"{name} is removed."))
        case _:
            return await _show(page, editing)


async def _save(page: PageRequest, editing: Editing) -> Response:
    """Save what the form says. If REST refuses it, show the form as it was sent, with the reason."""
    typed = editing.typed()
    try:
        if typed.problems:
            raise InvalidArguments("Not saved: something in the form cannot be read", fields=typed.problems)
        if editing.now is None or editing.base is None:
            saved = await page.api.send("POST", "agents", body=typed.agent)
        else:
            patch = patch_between(agent_of(editing.base), typed.agent)
            headers = {"if-match": tag_of(editing.base["version"])}
            saved = await page.api.send("PATCH", "agents", str(editing.now["id"]), body=patch, headers=headers)
    except (RestRefusal, InvalidArguments) as error:
        if error.status == _OUTDATED and editing.id is not None:
            editing = _with(editing, editing.form, now=await page.api.get("agents", editing.id))
        return await _show(page, editing, error)
    return page.redirect("agents", saved["id"], told=f"Saved as version {saved['version']}.")


async def _show(page: PageRequest, editing: Editing, error: RestRefusal | InvalidArguments | None = None) -> Response:
    """Show the form with what would come of it. ``error`` says why it was not saved."""
    typed = editing.typed()
    preview, problems = await _preview(page, editing, typed)
    new_problems = [] if error is None else [field for field in error.fields or () if field not in problems]
    problems = [*problems, *new_problems]
    matches = await _search(page, editing)
    theirs = None
    if editing.is_outdated and editing.now is not None and editing.base is not None:
        theirs = await page.api.find("agents", str(editing.now["id"]), "diff", before=editing.base["version"])
    optional = ["mcp_servers"] if page.caller.has("capset:admin") else []
    status = 200 if error is None or page.is_fragment else error.status
    return page.render(
        "agents/_editor.html" if page.is_fragment else "agents/editor.html",
        http_status=status,
        editing=editing,
        shown=show_agent(editing.form, editing.details, problems, optional),
        preview=preview,
        error=None if error is None or error.status == _OUTDATED else error,
        found=matches,
        theirs=theirs,
    )


async def _preview(page: PageRequest, editing: Editing, typed: Typed) -> tuple[Data | None, list[Field]]:
    """Return what REST says would come of a form, ``None`` if it cannot say; and everything that is wrong in it."""
    problems = list(typed.problems)
    if editing.now is None and not typed.agent and not problems:
        return None, []  # nothing is typed yet: nothing is wrong with it
    try:
        if editing.now is None:
            preview = await page.api.send("POST", "agents", "preview", body=typed.agent)
        else:
            patch = patch_between(agent_of(editing.now), typed.agent)
            preview = await page.api.send("POST", "agents", str(editing.now["id"]), "preview", body=patch)
    except (RestRefusal, InvalidArguments) as error:
        wrong = list(error.fields or ()) or [Field("agent", error.message)]
        return None, [*problems, *wrong]
    unread = {problem.path.replace("/", ".") for problem in problems}
    wrong = [Field(problem["path"], problem["expected"], problem["did_you_mean"]) for problem in preview["problems"]]
    return preview, [*problems, *(problem for problem in wrong if problem.path not in unread)]


async def _details(page: PageRequest, ids: Any) -> Details:  # texts, in any iterable
    """Return what REST says of capabilities."""
    names = list(dict.fromkeys(ids))
    details = await asyncio.gather(*(page.api.find("capabilities", name) if name else _nothing() for name in names))
    return dict(zip(names, details, strict=True))


async def _nothing() -> None:
    return None


async def _search(page: PageRequest, editing: Editing) -> Data:
    """Return the capabilities that fit what is looked for, without those that the form has."""
    text = editing.form.get("add", "").strip()[:200]
    has = set(ids_in(editing.form))
    matches = await page.api.get("capabilities", text=text, limit=min(200, _FOUND + len(has) + 1))
    items = [
        capability
        for capability in matches["items"]
        if capability["id"] not in has and capability["status"] != "coming_soon"
    ]
    return {"items": items[:_FOUND], "total": matches["total"], "text": text}


async def _added(page: PageRequest, editing: Editing, id: str) -> Editing:
    """Return the form with a capability; what is not the id of one is only looked for."""
    detail = await page.api.find("capabilities", id) if id else None
    if detail is None:
        return _with(editing, editing.form, f"There is no capability {id!r}." if id else "")
    if detail["id"] in ids_in(editing.form):
        return _with(editing, editing.form, f"{detail['id']} is there already.")
    pairs = [pair for pair in with_capability(editing.form, detail).pairs if pair[0] != "add"]
    details = {**editing.details, detail["id"]: detail}
    return Editing(Form(pairs), details, editing.now, editing.base, f"{detail['id']} is added.")


def _moved(editing: Editing, key: str, by: int) -> Editing:
    form = moved(editing.form, key, by)
    keys = keys_in(form)
    notice = f"{form.get(f'{key}-id', '')} is number {keys.index(key) + 1} of {len(keys)}." if key in keys else ""
    return _with(editing, form, notice)


async def _merged(page: PageRequest, editing: Editing, now: Data) -> Editing:
    """Return the form with what others have changed since, where it was not changed itself."""
    typed = editing.typed()
    if typed.problems:
        return _with(editing, editing.form, "Nothing was taken yet: first mend what cannot be read.")
    agent, taken, both = merge_agents(agent_of(editing.base or now), typed.agent, agent_of(now))
    details = {**editing.details, **await _details(page, map(id_of, agent.get("capabilities", ())))}
    notice = f"Taken from version {now['version']}: {', '.join(taken) or 'nothing'}."
    if both:
        notice += f" Both of you changed {', '.join(both)}: it is as you wrote it."
    return Editing(form_of(agent, details, version=now["version"]), details, now, now, notice)


def _at(editing: Editing, now: Data) -> Editing:
    """Return a form that is about the agent as it is now: it replaces what others wrote."""
    return Editing(with_version(editing.form, now["version"]), editing.details, now, now, editing.said)


def _with(editing: Editing, form: Form, notice: str = "", *, now: Data | None = None) -> Editing:
    return Editing(form, editing.details, now or editing.now, editing.base, notice)


ROUTES = (
    PageRoute("GET", "/agents/new", new_agent),
    PageRoute("POST", "/agents/new", send_new),
    PageRoute("GET", "/agents/{id}/edit", edit_agent),
    PageRoute("POST", "/agents/{id}/edit", send_change),
)

"""The editor of agents: a form with a preview of the result, and its differences from the saved version."""

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
"""Number of capabilities that a search shows."""
_OUTDATED: Final = 412
Data = Mapping[str, Any]  # JSON data


@dataclass(frozen=True, slots=True)
class Editing:
    """A form that is being edited, the agent's current version, and the version that the form was made from.

    Both are ``None`` for a new agent. ``said`` is what was done to the form, for screen readers, too.
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
        """Whether another version was saved since the form was made."""
        return self.now is not None and self.base is not None and self.now["version"] != self.base["version"]

    def typed(self) -> Typed:
        """Parse the form."""
        return read_agent(self.form, self.details, None if self.base is None else agent_of(self.base))


async def new_agent(page: PageRequest) -> Response:
    """Show an empty form."""
    return await _show(page, Editing(form_of({}, {}), {}))


async def edit_agent(page: PageRequest) -> Response:
    """Show the form of an existing agent."""
    now = await page.api.get("agents", page.params["id"])
    if now["read_only"]:
        return page.redirect("agents", now["id"], told="This agent is defined in code: change it there.")
    agent = agent_of(now)
    details = await _details(page, map(id_of, agent.get("capabilities", ())))
    return await _show(page, Editing(form_of(agent, details, version=now["version"]), details, now, now))


async def send_new(page: PageRequest) -> Response:
    """Create an agent from the form, or apply the action of a button to the form."""
    details = await _details(page, ids_in(page.form))
    return await _answer(page, Editing(page.form, details))


async def send_change(page: PageRequest) -> Response:
    """Save the form as the next version of its agent, or apply the action of a button to the form."""
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
    """Save the form. If REST refuses it, show the form as it was sent, with the reason."""
    typed = editing.typed()
    try:
        if typed.problems:
            raise InvalidArguments("Some fields of the form cannot be read", fields=typed.problems)
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
    """Show the form with a preview of its agent. ``error`` says why it was not saved."""
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
    """Return REST's preview of a form, ``None`` if there is none, and all problems in the form."""
    problems = list(typed.problems)
    if editing.now is None and not typed.agent and not problems:
        return None, []  # an empty form has no problems yet
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
    """Return REST's descriptions of capabilities."""
    names = list(dict.fromkeys(ids))
    details = await asyncio.gather(*(page.api.find("capabilities", name) if name else _nothing() for name in names))
    return dict(zip(names, details, strict=True))


async def _nothing() -> None:
    return None


async def _search(page: PageRequest, editing: Editing) -> Data:
    """Return the capabilities that match the search, without those in the form."""
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
    """Return the form with a capability added. Text that is not an id is only searched for."""
    detail = await page.api.find("capabilities", id) if id else None
    if detail is None:
        return _with(editing, editing.form, f"There is no capability {id!r}." if id else "")
    if detail["id"] in ids_in(editing.form):
        return _with(editing, editing.form, f"{detail['id']} is already in the form.")
    pairs = [pair for pair in with_capability(editing.form, detail).pairs if pair[0] != "add"]
    details = {**editing.details, detail["id"]: detail}
    return Editing(Form(pairs), details, editing.now, editing.base, f"{detail['id']} is added.")


def _moved(editing: Editing, key: str, by: int) -> Editing:
    form = moved(editing.form, key, by)
    keys = keys_in(form)
    notice = f"{form.get(f'{key}-id', '')} is number {keys.index(key) + 1} of {len(keys)}." if key in keys else ""
    return _with(editing, form, notice)


async def _merged(page: PageRequest, editing: Editing, now: Data) -> Editing:
    """Return the form with the changes that others have saved to fields that are unchanged in it."""
    typed = editing.typed()
    if typed.problems:
        return _with(editing, editing.form, "Nothing was taken yet: first correct the fields that cannot be read.")
    agent, taken, both = merge_agents(agent_of(editing.base or now), typed.agent, agent_of(now))
    details = {**editing.details, **await _details(page, map(id_of, agent.get("capabilities", ())))}
    notice = f"Taken from version {now['version']}: {', '.join(taken) or 'nothing'}."
    if both:
        notice += f" Both of you changed {', '.join(both)}: your change is kept."
    return Editing(form_of(agent, details, version=now["version"]), details, now, now, notice)


def _at(editing: Editing, now: Data) -> Editing:
    """Return a form that is based on the current version, so that it overwrites the changes of others."""
    return Editing(with_version(editing.form, now["version"]), editing.details, now, now, editing.said)


def _with(editing: Editing, form: Form, notice: str = "", *, now: Data | None = None) -> Editing:
    return Editing(form, editing.details, now or editing.now, editing.base, notice)


ROUTES = (
    PageRoute("GET", "/agents/new", new_agent),
    PageRoute("POST", "/agents/new", send_new),
    PageRoute("GET", "/agents/{id}/edit", edit_agent),
    PageRoute("POST", "/agents/{id}/edit", send_change),
)

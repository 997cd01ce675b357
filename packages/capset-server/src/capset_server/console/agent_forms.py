"""The form of an agent: rendering an agent as fields, and parsing the submitted fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from capset.errors import Field, InvalidArguments
from capset.stores.base import AGENT_FIELDS
from capset.wire.agents import AgentInput
from capset_connect.agents.rows import merge_patch
from capset_server.console.capability_forms import CapabilityForm, capability_form, capability_pairs, read_capability
from capset_server.console.forms import Form, unix_lines
from capset_server.console.schema_forms import FormField, fields_of, leaves_of, values_of

NAME: Final = "agent"
"""Prefix of the names of the fields."""
INSTRUCTION: Final = "instruction"
"""Name of the fields with one instruction each."""
ENTRY: Final = "capability"
"""Name of the fields with the key of one capability each, in order of priority."""
VERSION: Final = "version"
_KEY: Final = re.compile("c[0-9]{1,6}")
_SCHEMA: Final[Mapping[str, Any]] = AgentInput.model_json_schema()
_APART: Final = ("instructions", "capabilities", "status")
"""Agent fields that are not a single field of the form. The status is changed by separate actions."""
_TITLES: Final[Mapping[str, tuple[str, str]]] = {
    "name": ("Name", "A letter or digit, then letters, digits, spaces, and _ . - as well."),
    "description": ("Description", "What the agent is for. People and other agents read this."),
    "system_prompt": ("System prompt", "The first instructions to the model, before those of the capabilities."),
    "model": ("Model", "The model that runs the agent, such as openai:gpt-5; empty for the server's default."),
    "static_context": ("Static context", "Data for the host as a JSON object. No model sees it."),
    "mcp_servers": (
        "MCP servers",
        "By name. The capability mcp:NAME has the tools of each. Only administrators can change them.",
    ),
}
"""Titles and help texts of fields, where those of the schema are too short for people."""
Data = Mapping[str, Any]  # JSON data
Details = Mapping[str, Data | None]
"""The capabilities that a form shows, by id, as REST describes them; ``None`` for one that does not exist."""


@dataclass(frozen=True, slots=True)
class AgentForm:
    """A form as it is shown: its fields, and their problems."""

    fields: Mapping[str, FormField]
    instructions: tuple[FormField, ...]
    capabilities: tuple[CapabilityForm, ...]
    problems: tuple[Field, ...]
    """All problems, in the words of REST."""

    @property
    def more_is_open(self) -> bool:
        """Whether a field that is collapsed by default has an error."""
        folded = [
            form_field
            for name, form_field in self.fields.items()
            if name not in ("name", "description", "system_prompt")
        ]
        return any(form_field.error for form_field in leaves_of(folded))


@dataclass(frozen=True, slots=True)
class Typed:
    """A parsed form: the agent as REST accepts it, and the fields that cannot be read, which keep their old values."""

    agent: dict[str, Any]  # JSON data
    problems: tuple[Field, ...] = field(default=())


def agent_of(detail: Data) -> dict[str, Any]:
    """Return the writable fields of an agent, without empty ones."""
    agent: dict[str, Any] = {}
    for agent_field in AGENT_FIELDS:
        value = detail.get(agent_field.name)
        match agent_field.kind:
            case "capabilities":
                value = [_entry(entry) for entry in value or ()]
            case "object" if agent_field.name != "static_context":
                value = _without_nulls(value) or None
            case _:
                pass
        if value not in (None, "", []):
            agent[agent_field.name] = value
    return agent


def form_of(agent: Data, details: Details, *, version: int | None = None) -> Form:
    """Return the form of an agent as a browser would send it unchanged."""
    pairs = [(form_field.name, form_field.value) for form_field in leaves_of(_shown_fields(agent))]
    pairs += [(INSTRUCTION, text) for text in agent.get("instructions", ())]
    for at, entry in enumerate(agent.get("capabilities", ())):
        pairs += [(ENTRY, f"c{at}"), *capability_pairs(f"c{at}", entry, details.get(id_of(entry)))]
    if version is not None:
        pairs.append((VERSION, str(version)))
    return Form(pairs)


def keys_in(form: Form) -> list[str]:
    """Return the keys of the capabilities in a form, in order, without malformed ones."""
    return [key for key in form.every(ENTRY) if _KEY.fullmatch(key)]


def ids_in(form: Form) -> list[str]:
    """Return the ids of the capabilities in a form, in order."""
    return [form.get(f"{key}-id", "") for key in keys_in(form)]


def read_agent(form: Form, details: Details, base: Data | None = None) -> Typed:
    """Parse a form; ``base`` is the agent that it was made from.

    Fields that are missing or unchanged in the form keep their values from ``base``, even those that a form cannot
    represent.
    """
    base = base or {}
    before, after = _sent_by_part(form_of(base, details)), _sent_by_part(form)
    agent: dict[str, Any] = {"status": base.get("status")}
    problems: list[Field] = []
    for name in _FIELDS:
        part = f"{NAME}/{name}"
        field_value = base.get(name)
        if any(_is_of(key, part) for key in form) and before.get(part) != after.get(part):
            try:
                field_value = _as_before(field_value, values_of(_schema_of(name), form, name=NAME).get(name))
            except InvalidArguments as error:
                problems += error.fields or ()
        agent[name] = field_value
    texts = [unix_lines(text) for text in form.every(INSTRUCTION) if text.strip()]
    is_touched = before.get(INSTRUCTION) != after.get(INSTRUCTION)
    agent["instructions"] = _as_before(base.get("instructions"), texts) if is_touched else base.get("instructions")
    entries: list[Any] = []
    for at, key in enumerate(keys_in(form)):
        if key in before and before[key] == after.get(key):
            entries.append(base["capabilities"][int(key[1:])])
            continue
        entry, wrong = read_capability(key, form, details.get(form.get(f"{key}-id", "")))
        entries.append(entry)
        problems += [replace(problem, path=f"capabilities.{at}.{problem.path}") for problem in wrong]
    agent["capabilities"] = entries
    return Typed({name: value for name, value in agent.items() if value not in (None, "", [])}, tuple(problems))


def _sent_by_part(form: Form) -> dict[str, list[tuple[str, str]]]:
    """Group the submitted pairs by field of the agent, and by key of the capability."""
    sent: dict[str, list[tuple[str, str]]] = {}
    for name, value in form.pairs:
        part = "/".join(name.split("/")[:2]) if name.startswith(f"{NAME}/") else name.partition("-")[0]
        if value:
            sent.setdefault(part, []).append((name, unix_lines(value)))
    return {part: sorted(pairs) for part, pairs in sent.items()}


def _is_of(key: str, part: str) -> bool:
    return key == part or key.startswith(f"{part}/")


def show_agent(form: Form, details: Details, problems: Iterable[Field], has: Iterable[str]) -> AgentForm:
    """Prepare a submitted form for display; ``has`` names the optional fields that the caller may see."""
    problems = tuple(problems)
    names = [name for name in _FIELDS if name != "mcp_servers" or name in has]
    field_names = {form_field.name for form_field in leaves_of(_shown_fields({}))}
    errors = [Field(_nearest(problem.path, field_names), _expected(problem)) for problem in problems]
    fields = {
        form_field.name.partition("/")[2]: form_field for form_field in _shown_fields({}, errors=errors, form=form)
    }
    texts = form.every(INSTRUCTION)
    instructions = [
        FormField(INSTRUCTION, f"Instruction {at + 1}", "long", value=text, error=_said(problems, "instructions", at))
        for at, text in enumerate([*texts, ""] if not texts or texts[-1].strip() else texts)
    ]
    capabilities = [
        capability_form(key, form, details.get(form.get(f"{key}-id", "")), _inner(problems, "capabilities", at))
        for at, key in enumerate(keys_in(form))
    ]
    return AgentForm({name: fields[name] for name in names}, tuple(instructions), tuple(capabilities), problems)


def patch_between(before: Data, after: Data) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7396) that turns ``before`` into ``after``.

    Raises ``InvalidArguments`` for a null in an object, which a patch cannot express.
    """
    patch = _patch(before, after)
    merged = cast("dict[str, Any]", merge_patch(dict(before), patch))
    if wrong := [name for name in after if not _is_same(merged.get(name), after[name])]:
        problems = [Field(name, "null cannot be written by a change: leave the member out") for name in wrong]
        raise InvalidArguments("Invalid agent: " + "; ".join(map(str, problems)), fields=problems)
    return patch


def merge_agents(base: Data, mine: Data, theirs: Data) -> tuple[dict[str, Any], list[str], list[str]]:
    """Merge their changes into my unchanged fields; return the agent, the fields taken, and those both changed."""
    names = list(dict.fromkeys((*mine, *theirs, *base)))
    changed = [name for name in names if not _is_same(base.get(name), theirs.get(name))]
    taken = [name for name in changed if _is_same(base.get(name), mine.get(name))]
    merged = {name: (theirs if name in taken else mine).get(name) for name in names}
    both = [name for name in changed if name not in taken and not _is_same(mine.get(name), theirs.get(name))]
    return {name: value for name, value in merged.items() if value is not None}, taken, both


def moved(form: Form, key: str, by: int) -> Form:
    """Return a form with a capability moved up or down."""
    keys = keys_in(form)
    if key in keys:
        at = keys.index(key)
        keys.insert(max(0, min(len(keys) - 1, at + by)), keys.pop(at))
    return _with_entries(form, keys)


def without(form: Form, key: str) -> Form:
    """Return a form without a capability."""
    return _with_entries(form, [entry_key for entry_key in keys_in(form) if entry_key != key])


def with_capability(form: Form, detail: Data) -> Form:
    """Return a form with another capability, in its default configuration."""
    keys = keys_in(form)
    key = f"c{max((int(entry_key[1:]) for entry_key in keys if entry_key[1:].isdecimal()), default=-1) + 1}"
    return Form([*form.pairs, (ENTRY, key), *capability_pairs(key, str(detail["id"]), detail)])


def with_version(form: Form, version: int) -> Form:
    """Return a form that is based on another version of the agent."""
    return Form([*(pair for pair in form.pairs if pair[0] != VERSION), (VERSION, str(version))])


def id_of(entry: Any) -> str:  # an id, or an entry with one
    """Return the id of a capability's entry."""
    return entry if isinstance(entry, str) else str(entry["id"])


def _with_entries(form: Form, keys: Sequence[str]) -> Form:
    return Form([*(pair for pair in form.pairs if pair[0] != ENTRY), *((ENTRY, key) for key in keys)])


_FIELDS: Final = tuple(agent_field.name for agent_field in AGENT_FIELDS if agent_field.name not in _APART)


def _schema_of(*names: str) -> dict[str, Any]:
    """Return the schema of some fields of an agent, with the titles of the form."""
    properties = dict[str, Any]()
    for name in names:
        title, description = _TITLES.get(name, (name.replace("_", " ").capitalize(), ""))
        labels = {"title": title, "description": description} if description else {"title": title}
        properties[name] = {**_SCHEMA["properties"][name], **labels}
    required = [name for name in names if name in _SCHEMA["required"]]
    return {**_SCHEMA, "properties": properties, "required": required}


def _shown_fields(values: Data, *, errors: Sequence[Field] = (), form: Form | None = None) -> tuple[FormField, ...]:
    return fields_of(_schema_of(*_FIELDS), values, name=NAME, errors=errors, form=form)


def _as_before(before: Any, typed: Any) -> Any:  # JSON data
    """Return ``before`` if ``typed`` differs from it only in line endings, which forms change."""
    if isinstance(before, str) and isinstance(typed, str):
        return before if unix_lines(before) == typed else typed
    if isinstance(before, list) and isinstance(typed, list):
        ours, theirs = cast("list[Any]", before), cast("list[Any]", typed)
        return list(map(_as_before, ours, theirs)) if len(ours) == len(theirs) else theirs
    return typed


def _nearest(path: str, names: Iterable[str]) -> str:
    """Return the path of the form field for an error: the longest beginning of its path that names a field."""
    parts, names = path.replace("[", ".").replace("]", "").split("."), set(names)
    while len(parts) > 1 and "/".join((NAME, *parts)) not in names:
        parts.pop()
    return ".".join(parts)


def _expected(problem: Field) -> str:
    return (
        problem.expected
        if problem.did_you_mean is None
        else f"{problem.expected} (did you mean {problem.did_you_mean}?)"
    )


def _inner(problems: Iterable[Field], name: str, at: int) -> list[Field]:
    """Return the problems of one item of a list, by their paths within it."""
    heads = (f"{name}.{at}", f"{name}[{at}]")
    return [
        replace(problem, path=problem.path[len(head) :].removeprefix("."), expected=_expected(problem))
        for problem in problems
        for head in heads
        if problem.path == head or problem.path.startswith(f"{head}.")
    ]


def _said(problems: Iterable[Field], name: str, at: int) -> str:
    return "; ".join(problem.expected for problem in _inner(problems, name, at))


def _entry(entry: Any) -> Any:  # an id, or an entry
    return entry if isinstance(entry, str) else {name: value for name, value in entry.items() if value is not None}


def _without_nulls(value: Any) -> Any:  # JSON data
    if not isinstance(value, Mapping):
        return value
    inner = {name: _without_nulls(member) for name, member in cast("Data", value).items() if member is not None}
    return {name: member for name, member in inner.items() if member not in ([], {}) or name == "arguments"}


def _patch(before: Data, after: Data) -> dict[str, Any]:
    return dict(_changes(before, after))


def _changes(before: Data, after: Data) -> Iterator[tuple[str, Any]]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if name not in after:
            yield name, None
        elif isinstance(old, dict) and isinstance(new, dict):
            if inner := _patch(cast("Data", old), cast("Data", new)):
                yield name, inner
        elif not _is_same(old, new):
            yield name, new


def _is_same(first: Any, second: Any) -> bool:  # JSON data: 1 and true are not the same
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)

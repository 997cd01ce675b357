"""The part of an agent's form for one of its capabilities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from capset.errors import Field, InvalidArguments
from capset_server.console.forms import Form, unix_lines
from capset_server.console.schema_forms import FormField, fields_of, leaves_of, values_of

Data = Mapping[str, Any]  # JSON data


@dataclass(frozen=True, slots=True)
class PresetSwitch:
    """A preset: whether it is on, and on by default. One that the capability does not have can only be removed."""

    name: str
    is_on: bool
    is_default: bool
    instructions: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class CapabilityForm:
    """A capability in the form of an agent. The names of its fields begin with ``key``.

    ``detail`` is REST's description of it, ``None`` if it is not installed here. ``config`` are the fields of its
    configuration. ``text`` is the configuration as JSON if it has no fields. ``problems`` are those without a field.
    """

    key: str
    id: str
    detail: Data | None
    presets: tuple[PresetSwitch, ...]
    config: tuple[FormField, ...]
    text: str | None
    prefix: str
    rename: str
    said: str
    is_configured: bool
    errors: Mapping[str, str]
    problems: tuple[Field, ...]

    @property
    def config_is_wrong(self) -> bool:
        """Whether the configuration has an error."""
        return any(field.error for field in leaves_of(self.config))

    @property
    def has_more(self) -> bool:
        """Whether its tools are renamed, or the new names have an error."""
        return bool(self.prefix or self.rename or "prefix" in self.errors or "rename" in self.errors)


def capability_pairs(key: str, entry: str | Data, detail: Data | None) -> list[tuple[str, str]]:
    """Return an entry as the pairs that a form would send; ``detail`` is REST's description of the capability."""
    full_entry: Data = {"id": entry} if isinstance(entry, str) else entry
    chosen: Data = full_entry.get("presets") or {}
    defaults = _defaults(detail)
    pairs = [
        (f"{key}-id", str(full_entry["id"])),
        (f"{key}-presets", " ".join(defaults)),
        (f"{key}-said", " ".join(chosen)),
    ]
    pairs += [(f"{key}-on", name) for name, default in defaults.items() if chosen.get(name, default)]
    pairs += [(f"{key}-keep", _preset_text(name, is_on)) for name, is_on in chosen.items() if name not in defaults]
    config = full_entry.get("config")
    if config is not None:
        pairs.append((f"{key}-configured", "1"))
    schema = _config_schema(detail)
    if schema is not None and _fits(schema, config or {}, key):
        pairs += [(field.name, field.value) for field in leaves_of(fields_of(schema, config, name=f"{key}-config"))]
    elif config is not None:
        pairs.append((f"{key}-json", json.dumps(config, indent=2, ensure_ascii=False)))
    pairs.append((f"{key}-prefix", full_entry.get("prefix") or ""))
    renamed: Data = full_entry.get("rename") or {}
    pairs.append((f"{key}-rename", "\n".join(f"{original} = {name}" for original, name in renamed.items())))
    return pairs


def read_capability(key: str, form: Form, detail: Data | None) -> tuple[str | dict[str, Any], list[Field]]:
    """Parse an entry; return it without the values that cannot be read, and the problems by path in the entry."""
    entry: dict[str, Any] = {"id": form.get(f"{key}-id", "")}
    problems: list[Field] = []
    if presets := _presets(key, form, _defaults(detail)):
        entry["presets"] = presets
    try:
        config = _config(key, form, detail)
        if config is not None:
            entry["config"] = config
    except InvalidArguments as error:
        problems += [
            Field(f"config.{field.path}" if field.path else "config", field.expected) for field in error.fields or ()
        ]
    if prefix := form.get(f"{key}-prefix", "").strip():
        entry["prefix"] = prefix
    renamed: dict[str, str] = {}
    for line in filter(str.strip, unix_lines(form.get(f"{key}-rename", "")).split("\n")):
        original, sign, name = (part.strip() for part in line.partition("="))
        if not sign or not original:
            problems.append(Field("rename", f"a line is a tool's own name, =, and its new name; got {line!r:.60}"))
        else:
            renamed[original] = name
    if renamed:
        entry["rename"] = renamed
    return (entry["id"] if len(entry) == 1 else entry), problems


def capability_form(key: str, form: Form, detail: Data | None, problems: Sequence[Field]) -> CapabilityForm:
    """Prepare a capability of a form for display; ``problems`` are from REST, by path in the entry."""
    defaults, on, unknown_presets = _defaults(detail), form.every(f"{key}-on"), form.every(f"{key}-keep")
    presets_by_name = {preset["name"]: preset for preset in (detail or {}).get("presets", ())}
    rendered = form.get(f"{key}-presets", "").split()
    switches = [
        PresetSwitch(
            name,
            name in on if name in rendered else default,
            default,
            tuple(presets_by_name[name]["instructions"]),
            tuple(presets_by_name[name]["tools"]),
        )
        for name, default in defaults.items()
    ]
    switches += [PresetSwitch(*_preset_of(text), is_default=False, is_known=False) for text in unknown_presets]
    schema, text = _config_schema(detail), form.get(f"{key}-json")
    by_head: dict[str, list[str]] = {}
    inside: list[Field] = []
    others: list[Field] = []
    names = {field.name.partition("/")[2] for field in leaves_of(fields_of(schema or {}, name=f"{key}-config"))}
    for problem in problems:
        head, _, rest = problem.path.replace("/", ".").partition(".")
        cut = _nearest(rest, names) if head == "config" and text is None else None
        if cut is not None:
            inside.append(Field(cut, problem.expected))
        elif head in ("prefix", "rename") or (head == "config" and text is not None):
            by_head.setdefault(head, []).append(problem.expected if not rest else f"{rest}: {problem.expected}")
        else:
            others.append(problem)
    is_plain = schema is not None and text is None
    fields = fields_of(schema or {}, name=f"{key}-config", errors=inside, form=form) if is_plain else ()
    return CapabilityForm(
        key,
        form.get(f"{key}-id", ""),
        detail,
        tuple(switches),
        fields,
        text,
        form.get(f"{key}-prefix", ""),
        form.get(f"{key}-rename", ""),
        form.get(f"{key}-said", ""),
        f"{key}-configured" in form,
        {head: "; ".join(messages) for head, messages in by_head.items()},
        tuple(others),
    )


def _presets(key: str, form: Form, defaults: Mapping[str, bool]) -> dict[str, bool]:
    """Return the presets that differ from the default or were chosen before, in their current state."""
    rendered, on = form.get(f"{key}-presets", "").split(), form.every(f"{key}-on")
    chosen_before = form.get(f"{key}-said", "").split()
    switched = {name: name in on for name in rendered if name in defaults}
    chosen = {name: is_on for name, is_on in switched.items() if name in chosen_before or is_on != defaults[name]}
    unknown_presets = dict(map(_preset_of, form.every(f"{key}-keep")))
    ordered = [
        *(name for name in chosen_before if name in chosen or name in unknown_presets),
        *chosen,
        *unknown_presets,
    ]
    return {name: {**chosen, **unknown_presets}[name] for name in dict.fromkeys(ordered)}


def _config(key: str, form: Form, detail: Data | None) -> dict[str, Any] | None:
    """Return the config in a form, ``None`` if there is none. Raises ``InvalidArguments``."""
    text, schema = form.get(f"{key}-json"), _config_schema(detail)
    if text is not None:
        if not text.strip():
            return None
        try:
            config = json.loads(text)
        except (ValueError, RecursionError):
            config = None
        if not isinstance(config, dict):
            problem = Field("", "a JSON object is expected")
            raise InvalidArguments("Invalid config: a JSON object is expected", fields=[problem])
        return cast("dict[str, Any]", config)
    values = {} if schema is None else values_of(schema, form, name=f"{key}-config")
    return values if values or f"{key}-configured" in form else None


def _fits(schema: Data, config: Data, key: str) -> bool:
    """Return whether the fields of a schema can represent a config; otherwise it is shown as JSON."""
    name = f"{key}-config"
    pairs = [(field.name, field.value) for field in leaves_of(fields_of(schema, config, name=name))]
    try:
        return json.dumps(values_of(schema, Form(pairs), name=name), sort_keys=True) == json.dumps(
            config, sort_keys=True
        )
    except InvalidArguments:
        return False


def _nearest(path: str, names: set[str]) -> str | None:
    """Return the path of the field for an error in a config, ``None`` if there is none."""
    parts = path.replace("[", ".").replace("]", "").split(".")
    while parts:
        if "/".join(parts) in names:
            return ".".join(parts)
        parts.pop()
    return None


def _defaults(detail: Data | None) -> dict[str, bool]:
    return {preset["name"]: preset["default"] for preset in (detail or {}).get("presets", ())}


def _config_schema(detail: Data | None) -> Data | None:
    return None if detail is None else detail.get("config")


def _preset_text(name: str, is_on: bool) -> str:
    return f"{name}={str(is_on).lower()}"


def _preset_of(text: str) -> tuple[str, bool]:
    name, _, value = text.rpartition("=")
    return name, value == "true"

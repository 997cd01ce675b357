"""Checks of a capability's descriptions and presets, beyond what its definition enforces (spec 1, C1–C5)."""

from __future__ import annotations

import dis
import inspect
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType
from typing import Any, Final

from capset.composition.compose import Composition
from capset.composition.installation import ToolNames
from capset.definitions.parts import Part
from capset.errors import CapsetError, NotFound
from capset_testing.capability_suite.schema_fit import object_schemas, resolve_ref
from capset_testing.capability_suite.subject import CapabilitySubject, Promise, expect, outcome_text

_READ_OPCODES: Final = re.compile(r"LOAD_(FAST|DEREF|CLASSDEREF|FROM_DICT_OR_DEREF)|STORE_FAST_LOAD_FAST")
_QUOTED: Final = re.compile(r"`([^`\n]+)`")


async def it_says_what_it_is(subject: CapabilitySubject) -> None:
    """Check that the capability and every tool have a description of at least three words."""
    capability = subject.capability
    for label, text in (
        (f"capability {capability.name!r}", capability.description),
        *((f"tool {tool.name!r}", tool.description) for tool in subject.tools),
    ):
        expect(len(text.split()) >= 3, f"{label} needs a description of at least three words; it has {text!r}")


async def every_parameter_is_described(subject: CapabilitySubject) -> None:
    """Every parameter, at any depth, has a description, so that a model knows what to pass."""
    for tool in subject.tools:
        schema = tool.arguments.json_schema
        for object_schema in object_schemas(schema):
            for name, inner in object_schema["properties"].items():
                described = inner.get("description") or resolve_ref(inner, schema).get("description")
                expect(described, f"tool {tool.name!r}: nothing describes {name!r}; do so in the docstring's Args")


async def every_parameter_is_read(subject: CapabilitySubject) -> None:
    """Check that the handler's own code reads every parameter: one that is ignored misleads a model."""
    for tool in subject.tools:
        handler = inspect.unwrap(tool.handler)
        code: object = getattr(handler, "__code__", None)
        if tool.contract is not None or not isinstance(code, CodeType) or code.co_flags & inspect.CO_VARKEYWORDS:
            continue  # it takes all parameters together; a processor takes a message
        read = set(_names_read(code))
        for name in tool.parameters:
            expect(name in read, f"tool {tool.name!r}: its handler never reads the parameter {name!r}")


async def every_config_field_is_described(subject: CapabilitySubject) -> None:
    """Every config field has a description."""
    model: Any = subject.capability.config
    for name, info in model.model_fields.items():
        expect(info.description, f"{model.__name__}.{name} needs a description: Field(description=…)")


async def every_helper_is_documented(subject: CapabilitySubject) -> None:
    """Check that the helpers' class and each of its public methods have a docstring."""
    async with subject.open() as trial:
        kind: type[object] = (await trial.run_in_call(subject.helpers)).__class__
    named = kind.__name__
    if kind.__module__ in ("builtins", "types"):
        return  # a plain value
    expect(vars(kind).get("__doc__"), f"the helpers {named} need a docstring")
    for name, member in vars(kind).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            expect(inspect.getdoc(member), f"the helper {named}.{name} needs a docstring")


async def instructions_name_only_tools_that_are_there(subject: CapabilitySubject) -> None:
    """With any presets on, instructions that name a tool in backquotes appear only together with that tool."""
    tool_names = {tool.name for tool in subject.tools}
    presets = tuple(subject.capability.presets)
    settings = [subject, subject.with_presets(()), *(subject.with_presets([name]) for name in presets)]
    for setting in settings:
        names_in_use = {tool.name for tool in setting.in_use()}
        for part in setting.compose().merged.instructions:
            if part.source.capability != subject.capability.name:
                continue
            named = {word for quoted in _QUOTED.findall(part.value) for word in re.findall(r"[\w-]+", quoted)}
            missing = sorted((named & tool_names) - names_in_use)
            where = f"preset {part.source.preset!r}" if part.source.preset else "the capability itself"
            expect(
                not missing,
                f"the instructions of {where} mention {', '.join(missing)} even if no preset that is on provides it; "
                "move them to the preset that does",
            )


def _names_read(code: CodeType) -> Iterator[str]:
    """Yield the names of the variables that code reads, and of those that functions nested in it read from it."""
    for step in dis.get_instructions(code):
        if _READ_OPCODES.match(step.opname):
            yield from [step.argval] if isinstance(step.argval, str) else step.argval or ()
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from set(_names_read(inner)) & set(inner.co_freevars)


async def each_preset_moves_what_it_declares(subject: CapabilitySubject) -> None:
    """Each preset, switched on alone, adds exactly what it declares, and has a hash of its own."""
    off = subject.with_presets(()).compose()
    hashes = {off.static_hash: "no preset"}
    for name, preset in subject.capability.presets.items():
        expect(preset.part.declared, f"the preset {name!r} declares nothing")
        on = subject.with_presets([name]).compose()
        for surface, declared in _declared(preset.part, on.by_capability[subject.capability].names).items():
            added = _contents_of(on)[surface] - _contents_of(off)[surface]
            removed = _contents_of(off)[surface] - _contents_of(on)[surface]
            expect(not removed, f"the preset {name!r} takes away {surface}: {_names_text(removed)}")
            expect(
                added == declared,
                f"the preset {name!r} declares the {surface} {_names_text(declared)}, but switching it on adds "
                f"{_names_text(added)}: remove from the preset what is there without it",
            )
        same = hashes.setdefault(on.static_hash, f"the preset {name!r} alone")
        expect(same == f"the preset {name!r} alone", f"the preset {name!r} alone has the hash of {same}")


async def each_setting_of_the_presets_works(subject: CapabilitySubject) -> None:
    """With each preset alone, each left out, none and all: it composes, its context renders, its examples run."""
    for label, names in _settings(tuple(subject.capability.presets)):
        setting = subject.with_presets(names)
        try:
            async with setting.open() as trial:
                await trial.session.system_text()
        except CapsetError as error:
            raise AssertionError(f"with {label}: {error.message}") from error
        for tool in setting.in_use():
            for example in subject.examples_of(tool):
                async with setting.open() as trial:
                    try:
                        arguments = await trial.prepare(example)
                    except NotFound:
                        continue  # its preparation calls a tool that is switched off
                    result = await trial.send(tool, arguments)
                    expect(
                        result.success,
                        f"with {label}, tool {tool.name!r} with {json.dumps(arguments)} fails: {outcome_text(result)}",
                    )
                    await trial.session.system_text()


def _settings(presets: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "no preset", ()
    for name in presets:
        yield f"only the preset {name!r}", (name,)
    for name in presets if len(presets) > 2 else ():
        yield f"every preset but {name!r}", tuple(other for other in presets if other != name)
    yield "every preset", presets


def _declared(part: Part, names: Mapping[str, str]) -> Mapping[str, Counter[Any]]:
    return {
        "tools": Counter(part.tools),
        "instructions": Counter(ToolNames(names).rename_in(text) for text in part.instructions),
        "context": Counter(part.context),
        "resources": Counter(part.resources),
        "state": Counter((scope, name) for scope, model in part.state.items() for name in model.model_fields),
        "files": Counter(part.files),
    }


def _contents_of(composition: Composition) -> Mapping[str, Counter[Any]]:
    merged = composition.merged
    return {
        "tools": Counter(entry.tool for entry in merged.tools.values()),
        "instructions": Counter(composition.instructions),
        "context": Counter(entry.value for entry in merged.context),
        "resources": Counter(entry.value for entry in merged.resources.values()),
        "state": Counter((scope, name) for scope, state in merged.states.items() for name in state.fields),
        "files": Counter(list(merged.files)),
    }


def _names_text(parts: Iterable[Any]) -> str:
    return ", ".join(str(getattr(part, "name", part))[:60] for part in parts) or "nothing"


ALWAYS: Final[tuple[Promise, ...]] = (it_says_what_it_is,)
OF_TOOLS: Final[tuple[Promise, ...]] = (
    every_parameter_is_described,
    every_parameter_is_read,
    instructions_name_only_tools_that_are_there,
)
OF_CONFIG: Final[tuple[Promise, ...]] = (every_config_field_is_described,)
OF_HELPERS: Final[tuple[Promise, ...]] = (every_helper_is_documented,)
OF_PRESETS: Final[tuple[Promise, ...]] = (each_preset_moves_what_it_declares, each_setting_of_the_presets_works)

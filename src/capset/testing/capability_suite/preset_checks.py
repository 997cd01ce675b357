"""Checks of presets: each works by itself, and adds exactly its declared parts (spec 1, C2–C5)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from capset.composition.compose import Composition
from capset.composition.installation import ToolNames
from capset.definitions.parts import Part
from capset.errors import CapsetError, NotFound
from capset.testing.capability_suite.subject import CapabilitySubject, Promise, expect, told


async def each_preset_moves_what_it_declares(subject: CapabilitySubject) -> None:
    """Switched on alone, a preset adds all that it declares and nothing else; its hash changes likewise."""
    off = subject.with_presets(()).compose()
    hashes = {off.static_hash: "no preset"}
    for name, preset in subject.capability.presets.items():
        expect(preset.part.declared, f"the preset {name!r} declares nothing")
        on = subject.with_presets([name]).compose()
        for surface, declared in _declared(preset.part, on.by_capability[subject.capability].names).items():
            added = _there(on)[surface] - _there(off)[surface]
            gone = _there(off)[surface] - _there(on)[surface]
            expect(not gone, f"the preset {name!r} takes away {surface}: {_named(gone)}")
            expect(
                added == declared,
                f"the preset {name!r} declares the {surface} {_named(declared)}, but switching it on adds "
                f"{_named(added)}: what is there without it does not belong into it",
            )
        same = hashes.setdefault(on.static_hash, f"the preset {name!r} alone")
        expect(same == f"the preset {name!r} alone", f"the preset {name!r} alone has the hash of {same}")


async def each_setting_of_the_presets_works(subject: CapabilitySubject) -> None:
    """Each preset alone, each left out, none and all: it composes, its context renders, its tools' examples run."""
    for what, names in _settings(tuple(subject.capability.presets)):
        setting = subject.with_presets(names)
        try:
            async with setting.open() as bench:
                await bench.session.system_text()
        except CapsetError as error:
            raise AssertionError(f"with {what}: {error.message}") from error
        for tool in setting.in_use():
            for example in subject.examples_of(tool):
                async with setting.open() as bench:
                    try:
                        arguments = await bench.prepared(example)
                    except NotFound:
                        continue  # its preparations call a tool that is switched off
                    result = await bench.send(tool, arguments)
                    expect(
                        result.success,
                        f"with {what}, tool {tool.name!r} with {json.dumps(arguments)} fails: {told(result)}",
                    )
                    await bench.session.system_text()


def _settings(presets: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "no preset", ()
    for name in presets:
        yield f"only the preset {name!r}", (name,)
    for name in presets if len(presets) > 2 else ():
        yield f"every preset but {name!r}", tuple(one for one in presets if one != name)
    yield "every preset", presets


def _declared(part: Part, names: Mapping[str, str]) -> Mapping[str, Counter[Any]]:
    return {
        "tools": Counter(part.tools),
        "instructions": Counter(ToolNames(names).in_text(text) for text in part.instructions),
        "context": Counter(part.context),
        "resources": Counter(part.resources),
        "state": Counter((scope, name) for scope, model in part.state.items() for name in model.model_fields),
        "files": Counter(part.files),
    }


def _there(composition: Composition) -> Mapping[str, Counter[Any]]:
    merged = composition.merged
    return {
        "tools": Counter(one.tool for one in merged.tools.values()),
        "instructions": Counter(composition.instructions),
        "context": Counter(one.value for one in merged.context),
        "resources": Counter(one.value for one in merged.resources.values()),
        "state": Counter((scope, name) for scope, state in merged.states.items() for name in state.fields),
        "files": Counter(list(merged.files)),
    }


def _named(found: Iterable[Any]) -> str:
    return ", ".join(str(getattr(one, "name", one))[:60] for one in found) or "nothing"


OF_PRESETS: Final[tuple[Promise, ...]] = (each_preset_moves_what_it_declares, each_setting_of_the_presets_works)

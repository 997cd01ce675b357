"""Checks of sessions: everyone can use the capability, and it keeps sessions apart (spec 1, C26, C30, C33, C36)."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from capset.definitions.calls.contexts import Context
from capset.definitions.resources import Documents, Resource
from capset.errors import CapsetError, StateError
from capset_testing.capability_suite.subject import BOB, CapabilitySubject, Promise, Trial, expect, outcome_text


async def read_contents(trial: Trial) -> dict[str, Any]:
    """Return state, resources, documents and files by label, as JSON data or comparable values."""
    data = trial.session.snapshot.composition.data

    async def read_all(ctx: Context) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for scope, state in data.states.items():
            for model in state.models if scope != "request" else ():
                value = await ctx.state(model.value, scope=scope).get()
                values[f"the {scope} state of {model.source}"] = value.model_dump(mode="json")
        for source in data.declared_resources:
            if source.scope == "request":
                continue
            if isinstance(source, Documents):
                values[f"the {source.scope} documents {source.name!r}"] = await ctx.documents(source).recent(1_000)
            else:
                values[f"the {source.scope} resource {source.name!r}"] = await _value(ctx, source)
        return values

    contents = await trial.run_in_call(read_all)
    contents["the files"] = await trial.session.files.list("/", recursive=True)
    return contents


async def _value(ctx: Context, resource: Resource[Any]) -> Any:
    try:
        return resource.schema.jsonable(await ctx.resource(resource).get())
    except StateError:
        return None  # none yet, and no default


async def it_can_be_used(subject: CapabilitySubject) -> None:
    """Check that it composes, and that a user with every permission may use every tool."""
    capability = subject.capability
    expect(capability.contributes, f"capability {capability.name!r} is {capability.status}: it contributes nothing")
    for setting in (subject, *map(subject.with_tool, subject.tools)):
        try:
            async with setting.open() as trial:
                verdicts = trial.session.snapshot.verdicts
        except CapsetError as error:
            raise AssertionError(f"it cannot be used: {error.message}; {error.hint or ''}") from error
        for name, verdict in verdicts.items():
            expect(verdict.in_play, f"tool {name!r} is not in play: {verdict.reason}; give permissions= or env= for it")


async def helpers_can_be_built_by_everybody(subject: CapabilitySubject) -> None:
    """Helpers can be built with every permission and with none, since they are code, which no policy governs."""
    for permissions, holder in ((None, "who holds every permission"), (frozenset[str](), "without permissions")):
        async with subject.open(permissions=permissions) as trial:
            try:
                built = await trial.run_in_call(subject.helpers)
            except Exception as error:  # any error of the author's code
                raise AssertionError(f"helpers cannot be built for a principal {holder}: {error!r}") from error
            expect(built is not None, f"the helpers of a principal {holder} are None")


async def context_renders_the_same_twice(subject: CapabilitySubject) -> None:
    """Check that the context renders the same twice, in an empty session and after each example of a tool."""
    async with subject.open() as trial:
        await _check_rendering(trial, "in a new session")
    for tool in subject.tools:
        for example in subject.examples_of(tool):
            async with subject.with_tool(tool).open() as trial:
                await trial.send(tool, await trial.prepare(example))
                await _check_rendering(trial, f"after {tool.name!r}")


async def nothing_reaches_another_session(subject: CapabilitySubject) -> None:
    """Check that calls change no session of another user, nor one of the same user unless a scope is shared."""
    everything = subject.with_presets(subject.capability.presets)
    async with everything.open() as trial:
        shared = {scope for scope, _ in trial.session.snapshot.composition.data.resources}
        shared |= set(trial.session.snapshot.composition.data.states)
        others = {"another user": everything.principal(BOB, org="other")}
        if not shared & {"user", "org"}:
            others["the same user"] = everything.principal()
        for owner, principal in others.items():
            async with trial.open_other(principal) as other:
                before = await _visible_contents(other)
                await _run_all(trial)
                after = await _visible_contents(other)
                differing = [name for name in after if before.get(name) != after[name]]
                if not differing:
                    continue
                # Later, texts with the time in seconds differ, and random ones sooner or later; leaked data stays.
                # A coin toss gives the same result 12 times in a row once in 4,096 cases.
                await asyncio.sleep(1.1)
                later = [await _visible_contents(other) for _ in range(12)]
                leaked = [name for name in differing if all(reading.get(name) == after[name] for reading in later)]
                expect(not leaked, f"what one session does changes {', '.join(leaked)} of another session of {owner}")


async def what_is_exposed_is_there(subject: CapabilitySubject) -> None:
    """With every preset on, clients can read each name in ``expose=`` from the start."""
    async with subject.with_presets(subject.capability.presets).open() as trial:
        try:
            exposed = await trial.session.exposed()
        except CapsetError as error:
            raise AssertionError(f"what is exposed cannot be read: {error.message}") from error
        names = {name for values in exposed.values() for name in values}
        for name in subject.capability.expose:
            expect(
                name in names,
                f"{name!r} is exposed, but clients cannot read it: its scope is 'request', or it has no value yet",
            )
        json.dumps(exposed, allow_nan=False)


async def _check_rendering(trial: Trial, when: str) -> None:
    try:
        first, second = await trial.session.system_text(), await trial.session.system_text()
    except CapsetError as error:
        raise AssertionError(f"{when}, the context cannot be rendered: {error.message}") from error
    expect(first == second, f"{when}, the context renders differently each time:\n{first}\n\n{second}")


async def _run_all(trial: Trial) -> None:
    subject = trial.subject
    for tool in subject.in_use():
        for example in subject.examples_of(tool):
            await trial.send(tool, await trial.prepare(example))


async def _visible_contents(trial: Trial) -> dict[str, Any]:
    """Return the visible contents of an unused session. Its tools that write are not called."""
    subject = trial.subject
    contents = await read_contents(trial)
    contents["the system text"] = await trial.session.system_text()
    for tool in subject.in_use():
        for number, example in enumerate(subject.examples_of(tool)):
            if not tool.has_side_effects and not callable(example):
                result = await trial.send(tool, example)
                contents[f"the result of {tool.name!r} (example {number})"] = outcome_text(result)
    return contents


FIRST: Final[tuple[Promise, ...]] = (it_can_be_used,)
OF_HELPERS: Final[tuple[Promise, ...]] = (helpers_can_be_built_by_everybody,)
OF_CONTEXT: Final[tuple[Promise, ...]] = (context_renders_the_same_twice,)
OF_EXAMPLES: Final[tuple[Promise, ...]] = (nothing_reaches_another_session,)
OF_EXPOSED: Final[tuple[Promise, ...]] = (what_is_exposed_is_there,)

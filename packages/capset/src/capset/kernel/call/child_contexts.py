"""Child contexts: the additions of dynamic ``uses`` to a session for one call or step (spec 1, C27–C29)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capset.composition.compose import Composition, compose
from capset.definitions.references import AnyRef, DynamicUses
from capset.evaluation.code import read_code
from capset.evaluation.evaluate import evaluate_again
from capset.evaluation.expansion import resolve_uses
from capset.kernel.call.compilation import compile_tools
from capset.kernel.call.compiled_tools import CompiledTool, run_phases
from capset.kernel.call.context import CallContext
from capset.kernel.call.execution import Origin, execution_of
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.session_context import SessionContext
from capset.kernel.call.stages.access import Resolve, identify
from capset.kernel.state.files import SessionFiles


def resolve_dynamically(context: SessionContext, name: str, find: Resolve) -> CompiledTool:
    """Return a compiled tool whose calls evaluate the dynamic ``uses`` first; then ``find`` resolves the tool."""

    async def resolve(call: Invocation) -> None:
        pending = identify(call)
        if pending is not None:
            await pending
        call.context = await current_context(context, call)
        call.compiled = find(call.context)
        await run_phases(call)

    return CompiledTool(name, None, None, None, False, {"identify": (resolve,)})


async def current_context(context: SessionContext, origin: Origin) -> SessionContext:
    """Return the context with the current additions of its dynamic ``uses``: a child context, or the same if none.

    Raises ``ContextError`` if one of them fails, and any error of ``compose`` for the references that they return.
    """
    dynamic = context.snapshot.composition.dynamic
    if not dynamic or context.snapshot.refusal is not None:
        return context
    if context.data.states:
        await execution_of(origin).load()
    ctx = CallContext(origin)
    dynamic_refs: dict[DynamicUses, tuple[AnyRef, ...]] = {}
    current: SessionContext | None = None
    while pending := [function for function in dynamic if function not in dynamic_refs]:
        dynamic_refs |= {function: resolve_uses(function, ctx) for function in pending}
        key = tuple((function, tuple(map(_ref_key, refs))) for function, refs in dynamic_refs.items())
        current = context.child_contexts.get(key)
        if current is None:
            current = await _context_with(context, dynamic_refs)
            while len(context.child_contexts) >= 100:  # a session may have any number of sets of capabilities
                del context.child_contexts[next(iter(context.child_contexts))]
            context.child_contexts[key] = current
        dynamic = current.snapshot.composition.dynamic
    return current or context


def _ref_key(ref: AnyRef) -> Any:
    """Return a key that identifies a reference by value, since each run creates new objects."""
    config: Any = None if ref.config is None else (type(ref.config), ref.config.model_dump_json())
    return ref.base, frozenset(ref.presets.items()), config, ref.prefix, frozenset((ref.rename or {}).items())


async def _context_with(
    context: SessionContext, dynamic_refs: Mapping[DynamicUses, tuple[AnyRef, ...]]
) -> SessionContext:
    composition = compose(context.block, dynamic_refs, data=context.data)
    if (
        not any(choice.is_dynamic for choice in composition.capability_uses)
        and composition.dynamic == context.snapshot.composition.dynamic
    ):
        return context  # nothing is added to the static composition
    return await child_context(context, composition)


async def child_context(context: SessionContext, composition: Composition) -> SessionContext:
    """Return the context of another composition in the same session."""
    snapshot = await evaluate_again(context.snapshot, composition)
    await read_code(snapshot)
    context.runtime.payloads.keep(snapshot)
    files = SessionFiles(context.runtime, context.id, context.principal.org, composition.mounts)
    return SessionContext(
        context.id,
        context.runtime,
        snapshot,
        compile_tools(composition, snapshot.installed),
        files,
        context.data,
        limits=context.limits,
        enclosing_agent=context.agent,
    )

"""What a model is told before one step: everything resolved again, for the place as it is now (spec 1, C21–C26)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from capset.composition.context import render_context
from capset.composition.render import render_system
from capset.composition.sources import Contributed
from capset.definitions.contents import ContextEntry, ContextMessage, ContextValue
from capset.errors import ContextError, InternalError, ToolError
from capset.kernel.context import CallContext
from capset.kernel.execution import Origin
from capset.kernel.place import Place


@dataclass(frozen=True, slots=True)
class Prompt:
    """The place of one model step, its system text, the messages beside it, and the settings to run the model with."""

    place: Place
    system_text: str
    messages: tuple[ContextMessage, ...]
    model_settings: Mapping[str, Any]


async def prompt_of(origin: Origin, input: Any) -> Prompt:
    """Resolve the context for one step of a place that is settled. Raises ``ContextError``, naming who failed."""
    place = origin.place
    snapshot, ctx = place.snapshot, CallContext(origin)
    composition = snapshot.composition
    values = [(one.source, await _resolved(one, input, ctx)) for one in composition.context]
    context = render_context(values)
    text = render_system(composition.block.system_prompt, composition.merged.instructions, snapshot.told, context)
    return Prompt(place, text, context.messages, composition.merged.model_settings)


async def _resolved(entry: Contributed[ContextEntry], input: Any, ctx: CallContext) -> ContextValue:
    function = entry.value.function
    if function is None:
        return entry.value.value
    try:
        given = function(*((input, ctx), (ctx,), ())[2 - entry.value.takes])
        return await given if isawaitable(given) else given
    except InternalError:
        raise
    except ToolError as error:  # whose words are meant to be read
        raise ContextError(
            f"the context {entry.value.name}() of {entry.source} failed: {error.message}", hint=error.hint
        ) from error
    except Exception as error:
        raise ContextError(
            f"the context {entry.value.name}() of {entry.source} failed: {type(error).__name__}"
        ) from error

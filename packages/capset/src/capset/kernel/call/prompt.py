"""The prompt of one model step: context and instructions, resolved for each step (spec 1, C21–C26)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from inspect import isawaitable
from types import MappingProxyType
from typing import Any

from capset.composition.context import render_context, render_system
from capset.composition.sources import Contributed
from capset.definitions.model_context import ContextEntry, ContextMessage, ContextValue
from capset.errors import ContextError, InternalError, ToolError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.kernel.call.context import CallContext
from capset.kernel.call.execution import Origin
from capset.kernel.call.session_context import SessionContext

_log = logging.getLogger("capset.kernel")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of one model step: session context, system text, messages and model settings."""

    context: SessionContext
    system_text: str
    messages: tuple[ContextMessage, ...]
    """The context's ready-made messages, beside the system text."""
    model_settings: Mapping[str, Any]
    """The model settings of the block and its capabilities."""

    @property
    def snapshot(self) -> Snapshot:
        """The tools in play in this step, with the hashes for the records of its calls."""
        return self.context.snapshot


async def prompt_of(origin: Origin, input: Any) -> Prompt:
    """Resolve the prompt of one step, after its dynamic ``uses``. Raises ``ContextError``, naming the contributor."""
    context = origin.context
    snapshot, ctx = context.snapshot, CallContext(origin)
    composition = snapshot.composition
    values = [(entry.source, await _resolve(entry, input, ctx)) for entry in composition.context]
    rendered = render_context(values)
    text = render_system(
        composition.block.system_prompt, composition.merged.instructions, snapshot.member_instructions, rendered
    )
    settings = deepcopy(dict(composition.merged.model_settings))  # model clients add to the settings they receive
    return Prompt(context, text, rendered.messages, MappingProxyType(settings))


async def _resolve(entry: Contributed[ContextEntry], input: Any, ctx: CallContext) -> ContextValue:
    function = entry.value.function
    if function is None:
        return entry.value.value
    try:
        resolved = function(*((input, ctx), (ctx,), ())[2 - entry.value.takes])
        return entry.value.nest_under_keys(await resolved if isawaitable(resolved) else resolved)
    except InternalError:
        raise
    except ToolError as error:  # its text is meant for readers
        raise ContextError(
            f"the context {entry.value.name}() of {entry.source} failed: {error.message}", hint=error.hint
        ) from error
    except Exception as error:
        _log.error("the context %s() of %s failed", entry.value.name, entry.source, exc_info=error)
        raise ContextError(
            f"the context {entry.value.name}() of {entry.source} failed: {type(error).__name__}"
        ) from error

"""``sandbox``: runs Python and bash on the session's files, in a separate process with limits (spec 5, P18)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Annotated, Any, Final

from pydantic import Field

from capset import Capability, Context, Tool, tool
from capset.ext import digested, in_thread, slot
from capset_tools.sandbox.backends import backend_for, backends_here, languages_said
from capset_tools.sandbox.child.frames import Backend, Order
from capset_tools.sandbox.config import MAX_SECONDS, ExecutionResult, FileChanges, Language, Left, SandboxConfig
from capset_tools.sandbox.contents import committed, gathered
from capset_tools.sandbox.process import ChildRun, Outcome

__all__ = ["ExecutionResult", "FileChanges", "Language", "Left", "SandboxConfig", "sandbox"]

MAX_CODE: Final = 1 << 18
"""Maximum characters of code in one run."""
_SECONDS: Final = MAX_SECONDS + 60
"""How long a call may take, including the wait for other runs."""
_KEEPING_SECONDS: Final = 3.0
"""How long a cancelled call may write files back; less than its cleanup time."""
_log = logging.getLogger("capset.builtin.sandbox")

_INSTRUCTIONS = """\
`execute_code` runs Python or bash in a sandbox. Use it where computing is surer than reckoning, and for work on many \
files at once.

- The session's files are there under their own paths, and what the code writes or deletes stays, once it has ended. \
Nothing else does: no variable, function, directory change or background job. Every run starts anew at `/`.
- There is no network, no other program and no package to install. `/tmp` is for scratch files: new ones there are \
gone after the run.
- Print what you want to see. In Python the value of the last line is given too.
- `stopped` says which limit ended a run: then nothing that it did to files is kept. Do less in one run, or print less.
- `files` says what was kept. A file that somebody else changed meanwhile stays as they left it.
- What Python and bash have here stands in the context, under `sandbox`."""


def execute_tool(config: Callable[[Context], SandboxConfig]) -> Tool[..., Any]:
    """Return the tool ``execute_code``; ``config`` returns the configuration for a call."""

    @tool(effect="destructive", permissions={"sandbox:execute"}, timeout=_SECONDS)
    async def execute_code(
        ctx: Context,
        language: Language,
        code: Annotated[str, Field(max_length=MAX_CODE, json_schema_extra=digested())],
    ) -> ExecutionResult:
        """Run Python or bash over the session's files, cut off from everything else, and get what it printed.

        Use it to compute, to check, and to change many files at once. Nothing but files stays from one run to the
        next. There is no network. An exception or an exit code other than 0 is a result; so is a limit that was hit,
        which `stopped` names, and then no file is changed.

        Args:
            language: python or bash, with what the context says of them under sandbox.
            code: All of the code. Paths are those of the session's files, and relative ones begin at /.
        """
        settings, began = config(ctx), monotonic()
        backend, command = await in_thread(ctx, partial(backend_for, language, settings))
        async with slot(ctx, "sandbox", at_once=2 * (os.cpu_count() or 1)):
            contents = await gathered(ctx, settings)
            order = Order(
                backend=backend,
                code=code,
                limits=settings.limits,
                files=[(path, len(content)) for path, content in contents.files.items()],
            )
            outcome = await _run(ctx, ChildRun(order, contents.files, command))
        changes = await _to_its_end(ctx, committed(ctx, contents, outcome))
        took = round((monotonic() - began) * 1000)
        return _result(language, backend, code, outcome, changes, took)

    return execute_code


async def _run(ctx: Context, run: ChildRun) -> Outcome:
    outcome = await in_thread(ctx, run.outcome, stop=run.stop)
    if outcome.ending is None and outcome.words:
        words = outcome.words.decode(errors="replace")
        _log.warning("sandbox: a run ended with %s, correlation %s: %s", outcome.stopped, ctx.correlation, words)
    return outcome


async def _to_its_end(ctx: Context, work: Coroutine[Any, Any, FileChanges]) -> FileChanges:
    """Return the result of ``work``. If the call is cancelled, give ``work`` a limited time to complete."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        loop = asyncio.get_running_loop()
        end = loop.time() + _KEEPING_SECONDS
        while not task.done() and (remaining := end - loop.time()) > 0:
            with suppress(asyncio.CancelledError):  # already cancelled; the cancellation from outside propagates below
                await asyncio.wait([task], timeout=remaining)
        if task.cancel():
            _log.warning("sandbox: not all files were written back in time, correlation %s", ctx.correlation)
        elif (error := task.exception()) is not None:
            _log.error("sandbox: writing files back failed, correlation %s", ctx.correlation, exc_info=error)
        raise


def _result(
    language: Language, backend: Backend, code: str, outcome: Outcome, changes: FileChanges, duration_ms: int
) -> ExecutionResult:
    ending = outcome.ending
    return ExecutionResult(
        language=language,
        backend=backend,
        code_sha256=sha256(code.encode(errors="surrogatepass")).hexdigest(),
        stdout=outcome.stdout.decode(errors="replace"),
        stderr=outcome.stderr.decode(errors="replace"),
        exit_code=ending["exit_code"] if ending and ending["stopped"] is None else None,
        value=ending["value"] if ending else None,
        error=ending["error"] if ending else None,
        stopped=ending["stopped"] if ending else outcome.stopped,
        truncated=ending["truncated"] if ending else False,
        files=changes,
        duration_ms=duration_ms,
    )


def _sandbox() -> Capability[None, SandboxConfig]:

    async def languages(ctx: Context) -> Mapping[str, Mapping[Language, str]]:
        return {"sandbox": await asyncio.to_thread(languages_said, ctx.config(capability))}

    capability: Capability[None, SandboxConfig] = Capability(
        "sandbox",
        title="Sandbox",
        description="Runs Python and bash over the session's files, without network, within limits.",
        icon="box",
        category="Execution",
        risk="high",
        instructions=[_INSTRUCTIONS],
        context=[languages],
        tools=[execute_tool(lambda ctx: ctx.config(capability))],
        config=SandboxConfig,
        readiness=backends_here,
    )
    return capability


sandbox = _sandbox()

"""``sandbox``: Python and bash over the session's files, in a separate process, bounded (spec 5, P18)."""

from __future__ import annotations

from capset import Capability
from capset.builtin.sandbox.config import SandboxConfig
from capset.builtin.sandbox.results import ExecutionResult, FileChanges, Language, Left
from capset.builtin.sandbox.tools import execute_tool

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
- Python is a subset: functions, comprehensions, dataclasses, plain classes, `async`, `with`, `match` and exceptions \
work; generators (`yield`), `del`, inheritance, decorated methods such as properties, exceptions of your own and files \
opened with `+` do not. \
Of the standard library there are `asyncio`, `base64`, `bisect`, `collections`, `copy`, `csv`, `dataclasses`, \
`datetime`, `decimal`, `functools`, `hashlib`, `itertools`, `json`, `math`, `os`, `pathlib`, `random`, `re`, `sys`, \
`time`, `tomllib`, `typing` and `unicodedata`.
- Bash has pipes, functions, arrays, loops and the usual commands: `grep`, `sed`, `awk`, `jq`, `sort`, `find`, `tar`, \
`diff` and the like. Functions call each other 16 deep at most, and a file has 10 MB at most. Background jobs are \
waited for."""


def _sandbox() -> Capability[None, SandboxConfig]:
    capability: Capability[None, SandboxConfig] = Capability(
        "sandbox",
        title="Sandbox",
        description="Runs Python and bash over the session's files, without network, within limits.",
        icon="box",
        category="Execution",
        risk="high",
        instructions=[_INSTRUCTIONS],
        tools=[execute_tool(lambda ctx: ctx.config(capability))],
        config=SandboxConfig,
    )
    return capability


sandbox = _sandbox()

__all__ = ["ExecutionResult", "FileChanges", "Language", "Left", "SandboxConfig", "sandbox"]

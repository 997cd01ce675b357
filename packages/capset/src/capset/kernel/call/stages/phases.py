"""The stages of the pipeline, in the order of spec 4 (G1).

A stage is a function of a tool. It is called once, when the tool is compiled, and returns the step that the tool's
calls take, or ``None`` if they need none. An unknown name is compiled into a refusal (``identify``). Recording the
outcome is not a stage: the pipeline does it for every call, however far the call got.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from capset.composition.installation import InstalledTool
from capset.kernel.call.compiled_tools import Phase, Step
from capset.kernel.call.stages.access import authentication, permission
from capset.kernel.call.stages.admission import admission
from capset.kernel.call.stages.approval import approval
from capset.kernel.call.stages.arguments import policy, validation
from capset.kernel.call.stages.credential import credential
from capset.kernel.call.stages.result import output, serialize
from capset.kernel.call.stages.run import invoke, load_state

Stage = Callable[[InstalledTool], Step | None]

STAGES: Final[Mapping[Phase, tuple[Stage, ...]]] = {
    "identify": (authentication,),
    "authorize": (permission,),
    "arguments": (validation, policy),
    "admit": (approval, credential, load_state, admission),
    "run": (invoke,),
    "result": (output, serialize),
}
"""The stages by phase, in order. A stage that reads arguments may stand in any phase.

In ``identify`` and ``authorize`` it reads ``call.raw_arguments``, which are not validated; from ``arguments`` on, it
reads ``call.arguments``. In ``arguments``, validation and the policies come first: a stage that refused before them
would reveal something about the arguments to callers that a policy refuses. A call that has waited for its approval, or
whose approver changed its arguments, repeats all phases before ``admit`` (``REPEATED_PHASES``). Approval is the first
stage of ``admit``, so that the stages after it see what was approved. ``make check`` enforces both orders.

To refuse a call, a stage raises; the error determines the outcome on record. If the error is a denial, it is the
decision too, with its message as the reason. To record another reason or the ids of policies, call ``call.deny`` first.
"""

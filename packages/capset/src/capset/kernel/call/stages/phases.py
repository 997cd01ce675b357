"""The stages of the pipeline, in the order of spec 4 (G1).

A stage is a function of a tool. It is called once, when the tool is compiled, and returns the step that the tool's
calls take, or ``None`` if they need none. A name that is no tool is compiled into a refusal (``identify``). The record
of the outcome is no stage: the pipeline writes it for every call, however far the call came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from capset.composition.installation import Installed
from capset.kernel.call.compiled_tools import Phase, Step
from capset.kernel.call.stages.access import authentication, permission
from capset.kernel.call.stages.admission import admission
from capset.kernel.call.stages.approval import approval
from capset.kernel.call.stages.arguments import policy, validation
from capset.kernel.call.stages.result import output, serialize
from capset.kernel.call.stages.run import invoke, load_state

Stage = Callable[[Installed], Step | None]

STAGES: Final[Mapping[Phase, tuple[Stage, ...]]] = {
    "identify": (authentication,),
    "authorize": (permission,),
    "arguments": (validation, policy),
    "admit": (approval, load_state, admission),
    "run": (invoke,),
    "result": (output, serialize),
}
"""The stages by their phases, in order. A stage that reads arguments may stand in any of them.

In ``identify`` and ``authorize`` it reads ``call.given``, which is not validated; from ``arguments`` on,
``call.arguments``. In ``arguments``, validation and the policies come first: a stage before them that refuses would
tell those whom a policy refuses about the arguments. A call that has waited for its approval, or whose approver changed
its arguments, goes through all phases before ``admit`` again (``REPEATED_PHASES``). Approval is the first stage of
``admit``, so that those after it see what was approved; ``make check`` holds both orders.

To refuse a call, a stage raises; its record has that as the outcome. A denial is the decision there too, its message
the reason. ``call.deny`` before it gives the record another reason, or the ids of policies.
"""

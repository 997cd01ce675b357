"""The stages of the one road, in spec 4's order (G1). A new concern is a new module here and a new entry in ``STAGES``.

A stage is a function of a tool. It is called once, when the tool is bound, and returns the step that the tool's calls
take, or ``None`` if they need none. Looking up comes first and needs no stage: a name that is no tool has a road of
its own (``lookup``). The outcome's record comes last and is no stage: the pipeline writes it for every call, however
far the call came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from capset.composition.installing import Installed
from capset.kernel.invocation import Step
from capset.kernel.stages.admission import admission
from capset.kernel.stages.approval import approval
from capset.kernel.stages.authentication import authentication
from capset.kernel.stages.handling import handling
from capset.kernel.stages.loading import loading
from capset.kernel.stages.output import output
from capset.kernel.stages.permission import permission
from capset.kernel.stages.policy import policy
from capset.kernel.stages.sanitising import sanitising
from capset.kernel.stages.validation import validation

Stage = Callable[[Installed], Step | None]

STAGES: Final[tuple[Stage, ...]] = (
    authentication,
    permission,
    validation,
    policy,
    approval,
    loading,
    admission,
    handling,
    output,
    sanitising,
)

"""Output: what the handler gave fits the tool's output schema, or the call failed (spec 3, K9)."""

from __future__ import annotations

import logging

from capset.composition.installing import Installed
from capset.definitions.misfits import MISFITS, misfits
from capset.errors import InvalidOutput
from capset.kernel.invocation import MISSING, Invocation, Step

_log = logging.getLogger("capset.kernel")


def output(installed: Installed) -> Step:
    """Validate the result strictly; a streaming tool that gave none has nothing to validate."""
    name, check = installed.name, installed.tool.output.check

    def step(call: Invocation) -> None:
        if call.value is MISSING:
            return
        try:
            call.value = call.data = check(call.value)
        except MISFITS as error:
            # What came out may hold what nobody should see, so only its places are told, and no value is logged.
            fields = misfits(error, (), call.value)
            places = ", ".join(field.path for field in fields).replace("(arguments)", "the result")
            expected = "; ".join(map(str, fields))
            _log.error("tool %r, correlation %s: its result does not fit: %s", name, call.correlation, expected)
            raise InvalidOutput(f"The tool {name!r} gave a result that does not fit its schema: {places}.") from None

    return step

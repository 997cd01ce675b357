"""Errors that belong to the code that was run, and are contained, and errors that propagate (spec 3, K13)."""

from __future__ import annotations

from asyncio import CancelledError, current_task


def is_contained(error: BaseException) -> bool:
    """Whether an error belongs to the code that raised it.

    A cancellation from outside and errors that end the interpreter do not. A ``CancelledError`` without a cancellation
    request does, and so does ``SystemExit``: a function that an agent calls must not end its host.
    """
    match error:
        case CancelledError():
            task = current_task()
            return task is not None and not task.cancelling()
        case BaseExceptionGroup():
            _, rest = error.split((Exception, SystemExit, CancelledError))
            return rest is None
        case _:
            return isinstance(error, (Exception, SystemExit))

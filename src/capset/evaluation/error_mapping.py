"""Whose an error is: the code's that was run, which is contained, or nobody's here, which goes on (spec 3, K13)."""

from __future__ import annotations

from asyncio import CancelledError, current_task


def is_contained(error: BaseException) -> bool:
    """Whether an error belongs to the code that raised it.

    A cancellation from outside and what ends the interpreter do not. A ``CancelledError`` that nobody asked for does,
    and so does ``SystemExit``: what an agent calls does not end its host.
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

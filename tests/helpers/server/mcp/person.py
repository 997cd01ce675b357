"""A person who answers MCP's questions."""

from __future__ import annotations

from typing import Any

from mcp_types import (
    ElicitRequestFormParams,
    ElicitResult,
)


class Person:
    """Gives answers, one after the other, and keeps what was asked."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.answers = list(answers)
        self.asked: list[ElicitRequestFormParams] = []

    async def __call__(self, context: object, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params)
        return self.answers.pop(0)


def accept(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)

"""Turns whose model fails: its requests are made again, or the turn is, by the one who began it (spec 6, R3, R20)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from capset.agents.scripts import Call, ScriptStep
from capset.errors import Conflict, NotFound
from tests.agents.support import Moves, Shelf, site


@dataclass
class Provider:
    """A provider that fails so often, and how often it was asked."""

    failures: int
    error: Exception
    asked: int = 0
    before: str = ""
    """What is said before it fails."""

    def model(self) -> FunctionModel:
        """Return its model."""

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
            self.asked += 1
            if self.asked <= self.failures:
                if self.before:
                    yield self.before
                raise self.error
            yield "Here I am."

        return FunctionModel(stream_function=stream, model_name="moody")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset.agents.turn_model.BACKOFF_SECONDS", 0.01)


DOWN = ModelHTTPError(503, "moody")
REJECTED = ModelHTTPError(401, "moody")


@pytest.mark.spec("R3")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("error", [DOWN, ModelHTTPError(429, "moody"), ModelAPIError("moody", "no connection")])
async def test_a_request_that_fails_for_a_moment_is_made_again(url: str, shelf: Shelf, error: Exception) -> None:
    provider = Provider(2, error)
    async with site(url, shelf, [], model=provider.model()) as here:
        row = await here.session()
        await here.say(row, "hello")
        assert await here.last(row) == ("turn.ended", {"output": "Here I am."})
        assert provider.asked == 3


@pytest.mark.spec("R3")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("error", "tries"), [(DOWN, 3), (REJECTED, 1)])
async def test_a_provider_that_fails_ends_the_turn(url: str, shelf: Shelf, error: Exception, tries: int) -> None:
    provider = Provider(9, error)
    async with site(url, shelf, [], model=provider.model()) as here:
        row = await here.session()
        await here.say(row, "hello")
        kind, data = await here.last(row)
        assert (kind, data["error"]["code"], provider.asked) == ("turn.failed", "model_failed", tries)
        await here.say(row, "again")
        kinds = [one["kind"] for one in await here.said(row)]
        assert kinds == ["request", "response", "request"], "each prompt is stored, and the first one is closed"


@pytest.mark.spec("R3", "R20")
@pytest.mark.usefixtures("quick")
async def test_an_answer_that_breaks_off_is_not_told_twice(url: str, shelf: Shelf) -> None:
    """The turn has failed for the moment; taken up again, it asks for the whole answer."""
    provider = Provider(1, DOWN, before="Here ")
    async with site(url, shelf, [], model=provider.model()) as here:
        row = await here.session()
        turn = await here.say(row, "hello")
        kind, data = await here.last(row)
        assert (kind, data["error"]["retryable"], provider.asked) == ("turn.failed", True, 1)
        await here.resume(row, turn)
        assert await here.last(row) == ("turn.ended", {"output": "Here I am."})


@pytest.mark.spec("R20")
@pytest.mark.usefixtures("quick")
async def test_a_turn_whose_provider_failed_goes_on_when_its_caller_says_so(url: str, shelf: Shelf) -> None:
    """Its calls are not made again; a turn that has failed for good, or is not the newest, stays as it is."""
    moves: Moves = [Call("put", text="a"), ScriptStep(fail="unavailable")]
    async with site(url, shelf, moves) as here:
        row = await here.session()
        turn = await here.say(row, "go")
        kind, data = await here.last(row)
        assert (kind, data["error"]["code"], data["error"]["retryable"]) == ("turn.failed", "model_failed", True)
    async with site(url, shelf, [Call("put", text="a"), "Done.", "More.", "Never."], agent=here.agent) as there:
        await there.resume(row, turn)
        assert (await there.last(row))[1] == {"output": "Done."}
        told = [kind for kind, _ in await there.told(row)]
        assert told.count("turn.retried") == told.count("turn.resumed") == 1
        assert shelf.done == ["put a"]
        with pytest.raises(NotFound, match="not in the turn"):
            await there.resume(row, turn)
        later = await there.say(row, "and?")
        with pytest.raises(NotFound, match="not in the turn"):
            await there.resume(row, turn)
        assert (await there.last(row))[1] == {"output": "More."}
        assert later != turn
    async with site(url, shelf, [], agent=here.agent) as broken:
        row = await broken.session()
        turn = await broken.say(row, "go")
        with pytest.raises(Conflict, match=r"failed for good \(script_error\)"):
            await broken.resume(row, turn)

"""Two kernels on one database: a limit, an allowance and a session's budget are theirs together."""

import asyncio

from capset import Agent, Capability, Kernel, Principal, Session, tool
from capset.errors import BudgetExceeded, LimitExceeded
from capset.ext import Allowance, Budget, Limit

STORE = "sqlite:///shared.db"
ADA = Principal("ada")


@tool(effect="external", limits="3/1m")
async def send(to: str) -> str:
    """Send a letter, three times a minute at most, wherever the call comes from."""
    return f"sent to {to}"


@tool(effect="read", limits=Limit(1, "1m", scope="process"))
async def look() -> str:
    """Look; each process counts for itself, and writes nothing to do so."""
    return "seen"


post = Capability("post", tools=[send, look])
clerk = Agent("clerk", uses=[post])
careful = Agent("careful", uses=[post], allowance=Allowance(session=Budget(calls=1)))


async def told(where: str, session: Session, to: str) -> bool:
    """Send a letter, print what came of it, and say whether it went out."""
    result = await session.try_call(send, to)
    print(f"{where}: {result.data if result.error is None else result.error.message}")
    return result.success


async def main() -> None:
    # As two processes would: each kernel has its own connection, and knows nothing of the other but the database.
    async with (
        Kernel(STORE) as first,
        Kernel(STORE) as second,
        first.open(clerk, principal=ADA) as first_session,
        second.open(clerk, principal=ADA) as second_session,
    ):
        sent = await asyncio.gather(
            *(told("here", first_session, "bob") for _ in range(4)),
            *(told("there", second_session, "bob") for _ in range(4)),
        )
        assert sum(sent) == 3, "three of eight, whichever they are"
        error = (await first_session.try_call(send, "carol")).error
        assert isinstance(error, LimitExceeded)
        print(f"again in {error.retry_after:.0f} s at the earliest")
        assert [
            (await opening.try_call(look)).success for opening in (first_session, second_session, first_session)
        ] == [True, True, False]

    # A budget belongs to the session: another opening, after a restart too, goes on with what is left.
    eve = Principal("eve")
    async with Kernel(STORE) as kernel, kernel.open(careful, principal=eve) as session:
        assert await told("first opening", session, "dave")
    async with Kernel(STORE) as kernel, kernel.open(careful, principal=eve, session_id=session.id) as reopened:
        assert not await told("second opening", reopened, "dave")
        assert isinstance((await reopened.try_call(look)).error, BudgetExceeded)


asyncio.run(main())

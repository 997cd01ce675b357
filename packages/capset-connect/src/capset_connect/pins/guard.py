"""The guard of third-party tools: refuses calls of tools that differ from their pins (spec 7, M5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from capset.definitions.governance.policies import Decision, Policy, Request, allow, deny
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError, StoreError, ToolError, TransientError
from capset.kernel.revocation import RevocationWatch
from capset.stores.base.pins import ToolPin
from capset_connect.pins.offers import Offer
from capset_connect.pins.tool_pins import Approved, Ask, ToolSource, is_as_approved
from capset_connect.tool_rules import RuleNames


class Guard:
    """Refuses calls of tools that differ from their approved form, or that are no longer offered.

    ``policies_of`` a tool refuse its calls, and take it out of play once its difference is known.

    It also refuses tools whose approval was withdrawn, all tools of a source that is no longer declared, and all of
    them while the host's rules name tools that the source does not have.
    """

    def __init__(
        self,
        source: ToolSource,
        offers: Ask | None,
        pins: Mapping[str, ToolPin],
        approved: Approved | None,
        latest: Ask | None = None,
        rules: RuleNames | None = None,
        last_offers: Callable[[], Sequence[Offer] | None] = lambda: None,
    ) -> None:
        """``offers`` returns the tools as described; ``pins`` are the pins by the tools' local names.

        Without ``offers``, only what is withdrawn is refused.

        ``approved`` looks up the approvals at each call; ``None`` if they cannot be withdrawn. ``latest`` asks the
        source again before a tool is refused: it may have been approved since ``offers`` asked. ``last_offers`` returns
        the tools as last listed, without asking the source; ``None`` if they have not been.
        """
        self._source = source
        self._offers = offers
        self._latest = latest
        self._pins = pins
        self._approved = approved
        self._rules = rules
        self._last_offers = last_offers
        self._listed_before = last_offers()
        """A list from before the pins were read proves nothing: a tool may have been approved since."""
        self._by_name: tuple[Sequence[Offer], Mapping[str, Offer]] = (), {}
        """A list of tools, and its index by name: many tools are looked up in the same list."""
        self.policy = Policy(f"{source.capability}:pinned", self._decide, phase="call")

    async def verify(self, name: str) -> str | None:
        """Return why a tool, by its local name, must not be called, or ``None`` if it is as approved.

        Raises ``CapsetError`` if the tools cannot be listed.
        """
        pin = self._pins[name]
        if (withdrawn := await self.withdrawal(pin)) is not None:
            return withdrawn
        return await self._looked(lambda offers: self._misnamed(offers) or self._difference(pin, offers))

    async def verify_rules(self) -> str | None:
        """Return why no tool of the source may be called, or ``None`` if it has all tools that the rules name.

        The source is asked only if the rules name any. Raises as ``verify`` does.
        """
        if (withdrawn := await self.withdrawal()) is not None:
            return withdrawn
        return await self._looked(self._misnamed) if self._rules else None

    def policies_of(self, name: str) -> Sequence[Policy]:
        """Return the policies of a tool, by its local name."""
        return self.policy, self._quarantine(name)

    def _quarantine(self, name: str) -> Policy:
        """Return a policy that takes a tool, by its local name, out of play while it is known to differ from its pin.

        The source is not asked, so that no snapshot waits for it: each call asks.
        """
        pin = self._pins[name]

        def decide(_: Request) -> Decision:
            last_offers = self._last_offers()
            if last_offers is None or last_offers is self._listed_before:
                return allow()
            reason = self._difference(pin, last_offers)
            return allow() if reason is None else deny(reason)

        kind = self._source.capability.partition(":")[0]
        return Policy(f"{kind}:{name}:unchanged", decide, phase="evaluate")

    def until_withdrawn(self, name: str | None = None) -> RevocationWatch:
        """Return a context manager that cancels a running call once its tool, by its local name, is withdrawn.

        Without a name, the tool needs no approval. Raises ``ToolError``.
        """
        pin = None if name is None else self._pins[name]

        async def check() -> None:
            if (withdrawn := await self.withdrawal(pin)) is not None:
                message = f"{withdrawn}: the call was cancelled, and its outcome is unknown"
                raise ToolError(message, code="withdrawn", status=409)

        return RevocationWatch(check)

    async def withdrawal(self, pin: ToolPin | None = None) -> str | None:
        """Return what was withdrawn since the tools were read, if anything: the source, or the approval of ``pin``."""
        if self._approved is None:
            return None
        approved = await self._approved()
        if approved is None:
            return f"The {self._source.label} is no longer declared"
        if pin is None or approved.get(pin.tool) == pin.hash:
            return None
        if pin.tool in approved:
            return f"The tool {pin.tool!r} of the {self._source.label} has since been approved in another form"
        return f"The approval of the tool {pin.tool!r} of the {self._source.label} was withdrawn"

    async def _looked(self, problem: Callable[[Sequence[Offer]], str | None]) -> str | None:
        if self._offers is None:
            return None
        message = problem(await self._offers())
        if message is None or self._latest is None:
            return message
        return problem(await self._latest())

    def _misnamed(self, offers: Sequence[Offer]) -> str | None:
        return None if self._rules is None else self._rules.problem(self._source.label, offers)

    def _difference(self, pin: ToolPin, offers: Sequence[Offer]) -> str | None:
        if self._by_name[0] is not offers:
            self._by_name = offers, {offer.name: offer for offer in reversed(offers)}
        offer = self._by_name[1].get(pin.tool)
        if offer is None:
            return f"The {self._source.label} no longer has the tool {pin.tool!r}"
        if is_as_approved(pin, offer):
            why = "; ".join(offer.problems) if offer.is_unusable else None
            return why and f"The {self._source.label} has a tool {pin.tool!r} that nothing can call: {why}"
        restart = "" if self._latest is None else "; or restart its server, if that was started before the approval"
        return (
            f"The {self._source.label} describes its tool {pin.tool!r} differently than {pin.approved_by} approved: "
            f"it has to be approved again{restart}"
        )

    async def _decide(self, request: Request) -> Decision:
        return await decided(self.verify(cast("AnyTool", request.tool).name))


async def decided(refusal: Awaitable[str | None]) -> Decision:
    """Return a policy's decision about a call: deny if there is a reason to refuse it, else allow."""
    try:
        reason = await refusal
    except TransientError:
        return allow()  # the handler asks again and raises the error itself, with nothing called
    except CapsetError as error:
        reason = error.public if isinstance(error, StoreError) else error.message
    return allow() if reason is None else deny(reason)

"""``POST /slack/interactions``: decisions by Slack button, by people that administrators have added (spec 9, N32)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from contextlib import suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from capset.definitions.governance.approvals import Answer, ApprovalRow
from capset.errors import CapsetError, Conflict, NotFound, StoreError, Unauthenticated
from capset.kernel.governance.acts import Actor, acting
from capset.stores.base import ReplyRow
from capset_connect.notifications.senders import DeliveryError, secret_in
from capset_connect.notifications.slack import Slack, SlackApi, check_extra
from capset_connect.notifications.slack_interactions import Click, click_of, is_signed
from capset_connect.notifications.texts import line
from capset_server.approvals.decisions import check_chat_answer, decide_approval, find_approval
from capset_server.approvals.people import callers_of_user
from capset_server.auth.callers import Caller
from capset_server.http.idempotency import forgotten_before
from capset_server.http.request_context import RequestContext, request_context
from capset_server.http.request_rules import HttpRefusal
from capset_server.http.responses import answer, answer_problem
from capset_server.service import Service

_SEEN: Final = "slack"
_NO_ORG: Final = "\x1fslack"
"""The organisation of the rows of signed requests. None can have this name, so the rows use up no quota."""
_TELL_SECONDS: Final = 30.0
_log = logging.getLogger("capset.notifications")


class SlackEndpoint:
    """The endpoint of interactions. Slack's signature replaces a key, and each request is accepted once."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._channels = [channel for channel in service.kernel.deliveries.channels if isinstance(channel, Slack)]
        for channel in self._channels:
            check_extra(channel.name)
        self._telling: set[asyncio.Task[None]] = set()

    async def __call__(self, id: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        context = request_context(scope)
        if not self._channels:
            missing = NotFound("This server has no Slack channel")
            return await answer_problem(send, missing, context.correlation)
        if scope["method"] != "POST":
            refused = HttpRefusal(405, "method_not_allowed", "Send interactions with POST")
            return await answer_problem(send, refused, context.correlation, (b"allow", b"POST"))
        body: bytes = (await receive())["body"]  # the middleware has read all of it
        signed = await self._signed_by(context, body)
        await self._check_first(context, body)
        if (click := click_of(body)) is not None:
            await self._decide(signed, click, context)
        return await answer(send, 200, b"text/plain", b"")

    async def close(self) -> None:
        """Cancel the replies that are still to be sent."""
        for task in self._telling:
            task.cancel()
        if self._telling:
            await asyncio.wait(self._telling)

    async def _signed_by(self, context: RequestContext, body: bytes) -> list[Slack]:
        """Return the channels whose secret signed a request: those of one Slack app. Raises ``Unauthenticated``."""
        signed: list[Slack] = []
        stamp, signature = context.header(b"x-slack-request-timestamp"), context.header(b"x-slack-signature")
        now = self._service.kernel.clock.time_ns() / 1e9
        for channel in self._channels:
            try:
                secret = await secret_in(channel.signing_secret, self._service.kernel.secrets)
            except DeliveryError as error:
                _log.error("channel %s: %s; requests from Slack are refused", channel.name, error)
                continue
            if is_signed(secret, stamp, signature, body, now=now):
                signed.append(channel)
        if not signed:
            raise Unauthenticated("This request is not signed by Slack, or was signed more than five minutes ago")
        return signed

    async def _check_first(self, context: RequestContext, body: bytes) -> None:
        """Raise ``Conflict`` if any server of the store has received this request before."""
        store, now = self._service.kernel.store.replies, self._service.kernel.now()
        signed = context.header(b"x-slack-request-timestamp").encode() + b"\0" + body
        digest = hashlib.sha256(signed).hexdigest()
        row = ReplyRow(_SEEN, digest, digest, now, org=_NO_ORG)
        if await store.reserve(row, expired=forgotten_before(now)) is not None:
            raise Conflict("This request from Slack was received before, and is not accepted again")
        await store.complete(_SEEN, digest, 200, None)

    async def _decide(self, signed: list[Slack], click: Click, context: RequestContext) -> None:
        """Decide a request as the person who clicked, or tell only that person why it cannot be decided.

        A signature is valid only for the channels with its secret: for their workspace, their conversation, and the
        requests that they announce there.
        """
        place = f"slack {click.team}/{click.user} in {click.conversation}"
        at = (click.team, click.conversation)
        channels = [channel for channel in signed if (channel.team, channel.conversation) == at]
        channel = (channels or signed)[0]
        if not channels:
            _log.warning("channel %s: a click from another workspace or conversation: %s", channel.name, place)
            return self._tell(channel, click, "Requests cannot be decided from this workspace and conversation.")
        decides = await self._decider(click)
        if decides is None:
            _log.warning("channel %s: a click by an unknown user: %s", channel.name, place)
            text = (
                f"You ({click.user} of {click.team}) have not been added for the organisation of this request, so you "
                "cannot decide it: ask an administrator."
            )
            return self._tell(channel, click, text)
        caller, row = decides
        principal = caller.principal
        context.notes["principal"] = principal.id
        if not any(channel.asks_about(row) for channel in channels):
            _log.warning("channel %s: a click on a request that it does not announce: %s", channel.name, place)
            return self._tell(channel, click, "This request is not announced in this conversation.")
        actor = Actor(principal.id, principal.kind, principal.org, place, correlation=context.correlation)
        try:
            answer = Answer(approved=click.action == "approve")
            check_chat_answer(row, answer)
            with acting(actor):
                await decide_approval(self._service, caller, row.id, answer)
        except StoreError:
            raise
        except CapsetError as error:
            self._tell(channel, click, line(error.message))

    async def _decider(self, click: Click) -> tuple[Caller, ApprovalRow] | None:
        """Return who clicked, as a person of the request's organisation, and the request; ``None`` for anyone else."""
        for caller in await callers_of_user(self._service.kernel, click.team, click.user):
            with suppress(NotFound):
                return caller, await find_approval(self._service, caller, click.request)
        return None

    def _tell(self, channel: Slack, click: Click, text: str) -> None:
        """Show a text to the person who clicked, in the background: Slack waits only three seconds for the response."""
        task = asyncio.create_task(self._told(channel, click, text))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _told(self, channel: Slack, click: Click, text: str) -> None:
        api = SlackApi(channel, self._service.kernel.secrets)
        try:
            async with asyncio.timeout(_TELL_SECONDS):
                await api.tell(click.conversation, click.user, text)
        except (DeliveryError, CapsetError, TimeoutError) as error:
            _log.warning("channel %s: cannot send a message to %s: %s", channel.name, click.user, error)

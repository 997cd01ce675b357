"""A real mail server on the loopback, of the test's own: it keeps what it was told, letter by letter."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from capset_tools.email import EmailConfig
from tests.certificates import certificate

HOST = "127.0.0.1"
SENDER = "agent@capset.example"
USERNAME, PASSWORD = "the-user", "the-password-of-it"


@dataclass(frozen=True)
class Delivered:
    """One email, with the envelope that it came in."""

    sender: str
    recipients: list[str]
    raw: bytes
    is_encrypted: bool

    @property
    def message(self) -> EmailMessage:
        parsed = message_from_bytes(self.raw, policy=policy.default)
        assert isinstance(parsed, EmailMessage)
        return parsed

    @property
    def headers(self) -> list[str]:
        return sorted(name.lower() for name in self.message.keys())  # noqa: SIM118  # each as often as it is there


@dataclass
class MailServer:
    """What a server has seen; ``answers`` is what it says to a command, ``hangs`` names one that it never answers."""

    port: int = 0
    delivered: list[Delivered] = field(default_factory=list[Delivered])
    helos: list[str] = field(default_factory=list[str])
    logins: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    commands: list[str] = field(default_factory=list[str])
    connections: int = 0
    answers: dict[str, str] = field(default_factory=dict[str, str])
    hangs: str = ""

    async def handle_EHLO(self, server: SMTP, session: Any, envelope: Any, name: str, answers: list[str]) -> list[str]:
        await self._seen("EHLO")
        session.host_name = name
        self.helos.append(name)
        return answers

    async def handle_MAIL(self, server: SMTP, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return await self._seen("MAIL")

    async def handle_RCPT(self, server: SMTP, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        envelope.rcpt_tos.append(address)
        return await self._seen("RCPT")

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:
        answer = await self._seen("DATA")
        if answer.startswith("250"):
            assert server.transport is not None
            is_encrypted = server.transport.get_extra_info("sslcontext") is not None
            self.delivered.append(Delivered(envelope.mail_from, envelope.rcpt_tos, envelope.content, is_encrypted))
        return answer

    async def handle_QUIT(self, server: SMTP, session: Any, envelope: Any) -> str:
        return (await self._seen("QUIT")).replace("250", "221")

    def __call__(
        self, server: SMTP, session: Any, envelope: Any, mechanism: str, credentials: LoginPassword
    ) -> AuthResult:
        self.logins.append((credentials.login, credentials.password))
        is_right = credentials == LoginPassword(USERNAME.encode(), PASSWORD.encode())
        return AuthResult(success=is_right, handled=False)

    async def _seen(self, command: str) -> str:
        self.commands.append(command)
        if command == self.hangs:
            await asyncio.Event().wait()
        return self.answers.get(command, "250 OK")


@asynccontextmanager
async def mail_server(
    *, tls: str = "none", login: bool = False, named: str = HOST, at: socket.socket | None = None, **more: Any
) -> AsyncGenerator[MailServer]:
    """Run a server in this loop, ``at`` a socket of the caller's or a new one, with a certificate for ``named``.

    ``more`` are fields of ``MailServer``.
    """
    recorder = MailServer(**more)
    context = server_tls(named) if tls != "none" else None

    def protocol() -> SMTP:
        recorder.connections += 1
        return SMTP(
            recorder,
            hostname="mail.secret.example",
            loop=asyncio.get_running_loop(),
            tls_context=context if tls == "starttls" else None,
            require_starttls=tls == "starttls",
            authenticator=recorder if login else None,
            auth_exclude_mechanism=() if login else ("LOGIN", "PLAIN"),
            auth_required=login and tls == "starttls",
            auth_require_tls=tls == "starttls",
        )

    implicit = context if tls == "implicit" else None
    listening = socket.create_server((HOST, 0)) if at is None else at.dup()
    server = await asyncio.get_running_loop().create_server(protocol, sock=listening, ssl=implicit)
    recorder.port = server.sockets[0].getsockname()[1]
    try:
        yield recorder
    finally:
        server.close()


@asynccontextmanager
async def scripted_server(answers: Mapping[str, str | None]) -> AsyncGenerator[MailServer]:
    """Run a server that answers commands by their first words; with ``None`` it hangs up, and so does it after a text.

    The text is the command ``.``; what is in it is read over.
    """
    recorder, serving = MailServer(), set[asyncio.Task[Any]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(cast("asyncio.Task[Any]", asyncio.current_task()))
        recorder.connections += 1
        answer: str | None = answers.get("", "220 here")
        while answer is not None:
            writer.write(f"{answer}\r\n".encode())
            until = b"\r\n.\r\n" if answer.startswith("354") else b"\r\n"
            try:
                line = (await reader.readuntil(until)).decode()
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            command = "." if until != b"\r\n" else line[:4].strip()
            recorder.commands.append(command)
            answer = answers.get(command, "354 go on" if command == "DATA" else "250 OK")
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    recorder.port = server.sockets[0].getsockname()[1]
    try:
        yield recorder
    finally:
        server.close()
        await asyncio.gather(*serving)


@asynccontextmanager
async def breaking_tls(server: MailServer) -> AsyncGenerator[MailServer]:
    """Run a way to a server that breaks its TLS once the server has an email, before it can say so."""
    relay, passing = MailServer(), set[asyncio.Task[Any]]()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, breaks: bool) -> None:
        while data := await reader.read(65_536):
            writer.write(b"\x17\x03\x03\x00\x20" + b"x" * 32 if breaks and server.delivered else data)
        writer.close()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing.add(cast("asyncio.Task[Any]", asyncio.current_task()))
        behind, before = await asyncio.open_connection(HOST, server.port)
        with suppress(ConnectionError):
            await asyncio.gather(copy(reader, before, breaks=False), copy(behind, writer, breaks=True))

    way = await asyncio.start_server(pass_on, HOST, 0)
    relay.port = way.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        way.close()
        await asyncio.gather(*passing)


def config_for(server: MailServer, **settings: Any) -> EmailConfig:
    """Return a config without TLS and login, for anybody at example.org, unless it is said."""
    options: Mapping[str, Any] = {
        "host": HOST,
        "port": server.port,
        "tls": "none",
        "login": False,
        "sender": SENDER,
        "recipients": ["@example.org"],
        **settings,
    }
    return EmailConfig(**options)


@dataclass(frozen=True)
class Held:
    """Secrets that a test holds."""

    known: Mapping[str, str]

    async def get(self, name: str) -> str | None:
        return self.known.get(name)


SECRETS = Held({"SMTP_USERNAME": USERNAME, "SMTP_PASSWORD": PASSWORD})


def server_tls(name: str) -> ssl.SSLContext:
    """Return a server's side of TLS with that certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "both.pem"
        file.write_text("".join(certificate(name)))
        context.load_cert_chain(file)
    return context

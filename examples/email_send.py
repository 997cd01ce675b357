"""An agent that may write to one company only; the mail server is one of the example's own, so nothing leaves here."""

import asyncio
from typing import Any

from aiosmtpd.smtp import SMTP

from capset import Agent, Kernel, Principal
from capset_tools.email import EmailConfig, email, email_send


class Mailbox:
    """What a mail server does with what it takes: here, it prints the envelope and the headers."""

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:
        print("envelope:", envelope.mail_from, "->", *envelope.rcpt_tos)
        headers = envelope.content.decode().partition("\r\n\r\n")[0].splitlines()
        print("\n".join(line for line in headers if line.startswith(("From", "To", "Subject"))))
        return "250 OK"


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(Mailbox(), hostname="localhost", loop=loop), "127.0.0.1", 0)
    config = EmailConfig(
        host="127.0.0.1",
        port=server.sockets[0].getsockname()[1],
        tls="none",  # a real one has TLS, and a login by the secrets SMTP_USERNAME and SMTP_PASSWORD
        login=False,
        sender="clerk@capset.example",
        recipients=("@example.org",),
    )
    clerk = Agent("clerk", uses=[email.with_config(config)])
    ada = Principal("ada", permissions=["email:send"])
    async with Kernel(store="memory://") as kernel, kernel.open(clerk, principal=ada) as session:
        sent = await session.call(email_send, to="bob@example.org", subject="Grüße", body="<p>Lunch?</p>", html=True)
        print("accepted for:", sent["accepted"])

        for to, subject in [
            ("eve@evil.example", "Hello"),
            ("bob@example.org, eve@evil.example", "Hello"),
            ("bob@example.org", "Hello\r\nBcc: eve@evil.example"),
        ]:
            refused = await session.try_call(email_send, to=to, subject=subject, body="Hello.")
            print("refused:", refused.error.message if refused.error else "no")
    server.close()


asyncio.run(main())

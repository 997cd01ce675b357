"""An agent that asks URLs: one host of this machine is allowed, everything else that is internal is refused."""

import asyncio
import json
from contextlib import AsyncExitStack

from capset import Agent, Kernel, Principal, ToolError
from capset.stores.base import AuditQuery
from capset_tools.http import HttpConfig, http


async def weather(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as a small server of one's own would."""
    path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
    if path == b"/moved":
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/secrets\r\nContent-Length: 0\r\n\r\n")
    else:
        body = json.dumps({"city": "Oslo", "degrees": 21}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def main() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(weather, "127.0.0.1", 0))
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        reporter = Agent("reporter", uses=[http.with_config(HttpConfig(allow=(host,)))])
        ada = Principal("ada", permissions={"http:read"})
        kernel = await stack.enter_async_context(Kernel("memory://"))
        session = await stack.enter_async_context(kernel.open(reporter, principal=ada))
        http_get = session.snapshot.tools["http_get"].tool

        answer = await session.call(http_get, f"http://{host}/oslo", headers={"Accept": "application/json"})
        print(answer["status"], answer["body"])

        for url in (f"http://{host}/moved", "http://localhost/", "http://0x7f.1/", "http://ada:secret@example.com/"):
            try:
                await session.call(http_get, url)
            except ToolError as error:
                print(f"{error.code}: {error.message}")

        await kernel.audit.flush()
        for record in reversed((await kernel.audit.query(AuditQuery())).items):
            print(record.tool, record.outcome, record.code, record.arguments)


asyncio.run(main())

"""An agent that reads the web: a page as Markdown, a picture, a server that stalls, and where it must not go.

It runs offline: the web is a server of its own on this machine, which the config allows.
"""

import asyncio
from contextlib import AsyncExitStack

from capset import Agent, Kernel, Principal, ToolError
from capset_tools.web_fetch import WebFetchConfig, web_fetch_over

OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
PAGE = """
<title>Teas</title><script>track()</script>
<h1>Teas</h1>
<p>There are <b>two</b>: <a href="green">green</a> and <a href="/black?strong=1">black</a>.</p>
<table><tr><th>tea</th><th>minutes</th></tr><tr><td>green</td><td>2</td></tr><tr><td>black</td><td>4</td></tr></table>
"""


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as servers do, good ones and bad ones."""
    path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
    if path == b"/teas/":
        writer.write(OK + b"Content-Type: text/html; charset=windows-1252\r\n\r\n" + PAGE.encode("windows-1252"))
    elif path == b"/leaf":
        writer.write(OK + b"Content-Type: image/png\r\nContent-Length: 5000000\r\n")
        writer.write(b"Content-Disposition: inline; filename*=UTF-8''bl%C3%A4tter.png\r\n\r\n\x89PNG")
    elif path == b"/stalls":
        writer.write(OK + b"Content-Type: text/plain\r\nContent-Length: 100\r\n\r\nThe first half of ")
        await writer.drain()
        await reader.read()  # until whoever asked has had enough
    elif path == b"/silent":
        await reader.read()
    else:
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/secrets\r\nContent-Length: 0\r\n\r\n")
    writer.close()
    await writer.wait_closed()


async def main() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(web, "127.0.0.1", 0))
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        # The real deadlines are 1 second for an answer to begin, and 30 for its body.
        web_fetch = web_fetch_over(first_byte=0.5, body=0.5).with_config(WebFetchConfig(allow=(host,)))
        ada = Principal("ada", permissions={"http:read"})
        kernel = await stack.enter_async_context(Kernel("memory://"))
        session = await stack.enter_async_context(kernel.open(Agent("reader", uses=[web_fetch]), principal=ada))
        fetch = session.snapshot.tools["web_fetch"].tool

        page = await session.call(fetch, f"http://{host}/teas/", as_markdown=True)
        print(page.get("content"))

        picture = await session.call(fetch, f"http://{host}/leaf")
        print(picture.get("filename"), picture["size"], picture.get("error"))

        half = await session.call(fetch, f"http://{host}/stalls")
        print(half["truncated"], half.get("content"))

        for url in (f"http://{host}/silent", f"http://{host}/moved", "http://localhost/", "http://2130706433/"):
            try:
                await session.call(fetch, url)
            except ToolError as error:
                print(f"{error.code}: {error.message}")


asyncio.run(main())

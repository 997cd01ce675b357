"""``python -m scripts.check_docs``: hold the pages of the documentation, and how they look, to their rules.

It reads ``docs/`` and the built ``site/``. In chromium, it measures tables on a screen as narrow as a phone's, and
searches as the site does. Where chromium is not installed this is left out and said, but in continuous integration it
fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from scripts.check_house import CRUTCHES

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
SITE: Final = ROOT / "site"
MOST_LINES: Final = 300
FINISHED: Final = Path("docs", "spec", "finished.md")
"""The list of requirements, which has a line for each."""
NARROW: Final = 400
"""The width of a narrow screen, in pixels."""
HISTORY: Final = "adr/history/"
"""Records of decisions as they were, which the page of decisions leads to."""
HASHED: Final = "capabilities"
"""Pages with texts of built-in capabilities, which stay as they are: hashes cover them."""
QUESTIONS: Final = {
    "only finance approve": "guide/approvals",
    "approve in Slack": "guide/approvals-where-people-are",
    "why refused": "guide/audit",
    "server dies": "guide/operate",
    "rotate keys": "guide/operate",
    "upgrade": "guide/deploy",
    "rate limit": "guide/governance",
    "own store": "guide/stores",
    "sso": "guide/console",
    "rbac": "guide/governance",
    "claude desktop": "guide/mcp",
    "cursor": "guide/mcp",
    "budget per user": "guide/agent-budgets",
    "export audit": "guide/audit",
    "verify log": "guide/audit",
    "replay": "guide/comparing",
    "quarantine": "guide/pins",
    "secret for mcp server": "guide/mcp-connections",
    "sub path": "guide/deploy",
    "test my capability": "guide/testing",
    "cost per call": "guide/performance",
}
"""The page that the search of the site finds first, by what people search for."""
_SEARCH: Final = """\
<!doctype html><pre id="found"></pre><script>
(async () => {
  const home = new DOMParser().parseFromString(await (await fetch("/index.html")).text(), "text/html");
  const code = await (await fetch(JSON.parse(home.getElementById("__config").textContent).search)).text();
  let listener, answer;  // the search is a worker's script, which runs in this page instead
  const listen = (_, handle) => { listener = handle; }, post = (message) => { answer = message; };
  new Function("addEventListener", "postMessage", code)(listen, post);
  const index = await (await fetch("/search/search_index.json")).json(), first = {};
  await listener({data: {type: 0, data: {...index, options: {suggest: true}}}});
  for (const question of %s) {
    await listener({data: {type: 2, data: question}});
    first[question] = answer.data.items[0]?.[0].location ?? "";
  }
  document.getElementById("found").textContent = JSON.stringify(first);
})();
</script>"""
_HARNESS: Final = """\
<!doctype html><iframe id="screen" style="border:0;width:%(width)dpx;height:800px"></iframe>
<pre id="found"></pre><script>
const frame = document.getElementById("screen");
const read = async (path) => new DOMParser().parseFromString(await (await fetch(path)).text(), "text/html");
const wide = (shown, article) => {
  const body = shown.querySelector(".md-content"), view = frame.contentWindow.innerWidth;
  body.replaceChildren(shown.importNode(article, true));
  const over = (one) => one.scrollWidth > one.clientWidth || one.getBoundingClientRect().right > view;
  const tables = [...body.querySelectorAll("table")].filter((one) => [one, ...one.querySelectorAll("td")].some(over));
  return tables.map((one) => one.innerText.trim().split("\\n")[0].slice(0, 60));
};
(async () => {
  const found = {}, first = await read("/index.html");
  const sheets = [...first.querySelectorAll("link[rel=stylesheet]")].map((one) => one.getAttribute("href"));
  const styles = sheets.map((one) => `<link rel=stylesheet href=/${one}>`);
  await new Promise((done) => {
    frame.onload = done;
    frame.srcdoc = `<!doctype html>${styles.join("")}<body><div class="md-content"></div>`;
  });
  for (const path of %(paths)s) {
    const article = (await read(path)).querySelector("article");  // a redirect has none
    found[path] = article === null ? [] : wide(frame.contentDocument, article);
  }
  document.getElementById("found").textContent = JSON.stringify(found);
})();
</script>"""


def texts() -> Iterator[str]:
    """Yield what is wrong with the texts of the pages."""
    for page in sorted([ROOT / "README.md", *DOCS.rglob("*.md")]):
        name, lines = page.relative_to(ROOT), page.read_text("utf-8").splitlines()
        if len(lines) > MOST_LINES and name != FINISHED:
            yield f"{name} has {len(lines)} lines, and may have {MOST_LINES}; make two pages of it"
        if page.parent.name in (HASHED, Path(HISTORY).name):
            continue
        for number, line in enumerate(lines, 1):
            if (word := CRUTCHES.search(line)) is not None:
                yield f"{name}:{number} says {word[0]!r}; say it plainly"


def menu() -> Iterator[str]:
    """Yield the pages that the menu does not lead to."""
    menu_pages = set(re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE))
    for page in sorted(DOCS.rglob("*.md")):
        name = page.relative_to(DOCS).as_posix()
        if name not in menu_pages and not name.startswith(HISTORY):
            yield f"docs/{name} is not in the menu; add it to nav in mkdocs.yml"


@contextmanager
def served(folder: Path, pages: Mapping[str, str] | None = None) -> Generator[str]:
    """Serve a folder, and further pages by their paths, on this machine; yield the address."""

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if (page := (pages or {}).get(self.path)) is None:
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def run_in_browser(harness: str, browser: str) -> Any:  # JSON
    """Return what a page beside those of the site writes into its element ``found``.

    Raises ``RuntimeError`` if it writes nothing.
    """
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-proxy-server", "--window-size=800,900"]
    with served(SITE, {"/measure": harness}) as address:
        done = subprocess.run(
            [browser, *flags, "--virtual-time-budget=120000", "--dump-dom", f"{address}/measure"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            timeout=300,
            check=True,
        )
    match = re.search(r'<pre id="found">(\{.*?\})</pre>', done.stdout, re.DOTALL)
    if match is None:
        raise RuntimeError(f"the page in the browser wrote nothing: {done.stdout[-500:]}")
    return json.loads(unescape(match[1]))


def tables(browser: str) -> Iterator[str]:
    """Yield the tables that do not fit a narrow screen."""
    pages = (page for page in sorted(SITE.rglob("*.html")) if page.name != "404.html")
    paths = [f"/{page.relative_to(SITE).as_posix()}" for page in pages]
    by_page: dict[str, list[str]] = run_in_browser(_HARNESS % {"width": NARROW, "paths": json.dumps(paths)}, browser)
    for path, wide in by_page.items():
        for table in wide:
            yield f"site{path}: the table {table!r} is wider than {NARROW} px; give it fewer columns or shorter words"


def search(browser: str) -> Iterator[str]:
    """Yield the questions that the search of the site answers with another page first."""
    locations: dict[str, str] = run_in_browser(_SEARCH % json.dumps([*QUESTIONS]), browser)
    for question, page in QUESTIONS.items():
        if locations[question].partition(".html")[0] != page:
            yield f"the search for {question!r} finds {locations[question] or 'nothing'!r} first, not docs/{page}.md"


def main() -> int:
    """Print what is wrong, and return 1 if anything is."""
    problems = [*texts(), *menu()]
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
    if browser is not None:
        problems += [*tables(browser), *search(browser)]
    elif os.environ.get("CI"):
        problems.append("no chromium is installed: the tables were not measured, and the search was not tried")
    else:
        print("docs: no chromium is installed, so tables and search are not checked", file=sys.stderr)
    for problem in problems:
        print(f"docs: {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())

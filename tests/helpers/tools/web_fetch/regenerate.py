"""Write what the pages are converted to anew, after a change that is meant.

Run ``python -m tests.helpers.tools.web_fetch.regenerate`` in the root of the repository. Beside each
``pages/NAME.html`` stand ``NAME.md`` and ``NAME.txt``. Read the difference before it is committed: what agents are
shown of a page is to be the same from one version to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from capset_tools.web_fetch.conversion import markdown_of, text_of

PAGES: Final = sorted(Path(__file__).with_name("pages").glob("*.html"))
BASE: Final = "https://example.org/guide/page.html?x=1#top"


def conversions(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files that belong to a page, with what they are to say."""
    html = page.read_text("utf-8")
    yield page.with_suffix(".md"), markdown_of(html, BASE) + "\n"
    yield page.with_suffix(".txt"), text_of(html, BASE) + "\n"


def main() -> None:
    """Write the files, and name those that changed."""
    for page in PAGES:
        for file, content in conversions(page):
            if not file.exists() or file.read_text("utf-8") != content:
                file.write_text(content, "utf-8", newline="\n")
                print("written:", file.name)


if __name__ == "__main__":
    main()

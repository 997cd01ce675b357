"""The pages of the site that are made of the code when it is built: a hook of MkDocs.

They are the paths of the REST API, the commands, and the modules. Pages that ``mkdocs.yml`` lists as the first of a
section are followed by the others of their folder.

The search finds guides before everything else, and decisions and the specification last; their history it leaves out.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, cast

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from scripts import cli_reference, module_index, rest_reference

FOLDERS: Final = ("reference/commands", "reference/rest")
BOOSTS: Final = {
    "guide/first-": 0.5,
    "guide/": 1.0,
    "reference/": 0.2,
    "spec/": 0.001,
    "adr/": 0.001,
}
"""What the search multiplies the score of a page by: the first that its path begins with. Others have 0.5."""
HISTORY: Final = "adr/history/"
_TITLE: Final = re.compile(r"^# (?:REST: )?(.+)$", re.MULTILINE)


@cache
def pages() -> dict[str, str]:
    """Return the pages by their paths below ``docs/``."""
    rendered = {"reference/modules.md": module_index.render()}
    for folder, texts in zip(FOLDERS, (cli_reference.render(), rest_reference.render()), strict=True):
        rendered |= {f"{folder}/{name}": text for name, text in texts.items()}
    return rendered


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the sections of the menu."""
    _complete(cast("list[Any]", config["nav"]))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Set what the search makes of a page."""
    path = page.file.src_uri
    boost = next((factor for start, factor in BOOSTS.items() if path.startswith(start)), 0.5)
    page.meta["search"] = {"exclude": True} if path.startswith(HISTORY) else {"boost": boost}


def _complete(entries: list[Any]) -> None:  # the menu as YAML has it
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        sections = cast("dict[str, Any]", entry).values()
        for section in (cast("list[Any]", child) for child in sections if isinstance(child, list)):
            _complete(section)
            for folder in FOLDERS:
                if any(f"{folder}/index.md" in str(child) for child in section if not isinstance(child, str)):
                    others = (path for path in pages() if path.startswith(f"{folder}/"))
                    section += [{_title(path): path} for path in others if not path.endswith("/index.md")]


def _title(path: str) -> str:
    match = _TITLE.search(pages()[path])
    title = match[1] if match else path
    return title[0].upper() + title[1:]

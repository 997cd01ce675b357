"""``python -m lab.screenshots``: take pictures of the pages that are read most, from the built ``site/``.

Each is taken wide and light, and narrow and dark, at half its size. It needs chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.check_docs import SITE, served

FOLDER: Final = Path(__file__).parents[1] / "docs" / "look" / "screens"
PAGES: Final = (
    "index",
    "guide/install",
    "guide/first-agent",
    "guide/first-agent-in-python",
    "guide/first-server",
    "guide/how-it-works",
    "guide/governance",
    "guide/approvals",
    "guide/run-agents",
    "guide/audit",
    "guide/operate",
    "reference/rest/index",
)
_LIGHT, _DARK = "--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"
SCREENS: Final = {"wide": ("--window-size=1400,1000", _LIGHT), "narrow": ("--window-size=400,900", _DARK)}
"""The screens by name: their size in pixels, and their colours."""


def main() -> int:
    """Take all pictures."""
    browser = shutil.which("chromium")
    if browser is None:
        print("screenshots: chromium is not installed", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-proxy-server", "--hide-scrollbars"]
    flags += ["--force-device-scale-factor=0.5", "--virtual-time-budget=8000"]
    with served(SITE) as address:
        for page in PAGES:
            for screen, options in SCREENS.items():
                file = FOLDER / f"{page.rpartition('/')[2] if page != PAGES[-1] else 'rest'}-{screen}.png"
                shot = [f"--screenshot={file}", f"{address}/{page}.html"]
                subprocess.run([browser, *flags, *options, *shot], stderr=subprocess.DEVNULL, timeout=60, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

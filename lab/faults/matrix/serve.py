"""``capset`` whose turns are held for eight seconds, or as ``CAPSET_HOLD`` says, not thirty: another goes on sooner."""

from __future__ import annotations

import os

from capset_agents import journal, turns
from capset_cli import main

if __name__ == "__main__":
    hold = int(os.environ.get("CAPSET_HOLD", "8"))
    journal.HOLD_SECONDS, journal.RENEW_SECONDS = hold, hold / 4
    turns.MAX_TAKEOVERS = 1_000
    main()

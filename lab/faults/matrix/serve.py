"""``capset`` whose turns are held for eight seconds, not thirty: what is waited for is that another goes on."""

from __future__ import annotations

from capset_agents import journal
from capset_cli import main

if __name__ == "__main__":
    journal.HOLD_SECONDS, journal.RENEW_SECONDS = 8, 2.0
    main()

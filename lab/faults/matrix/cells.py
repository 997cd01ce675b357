"""The matrix: which fault befalls which component, on which engine, at which moments. A component is added here."""

from __future__ import annotations

from dataclasses import dataclass

from lab.faults.matrix import faults
from lab.faults.matrix.faults import Strike

_ALL = ("idle", "load", "approval", "turn", "files", "starting", "draining")
_SERVING = ("idle", "load", "approval", "turn", "files")
_BUSY = ("load", "approval", "turn", "files")


@dataclass(frozen=True)
class Row:
    """One fault of one component, and the moments at which it comes."""

    component: str
    fault: str
    strike: Strike
    engine: str
    moments: tuple[str, ...]
    needs: str = ""
    """What its site has besides: a ``disk`` that can be told to be full, a ``clock`` that can be set, ``workers``, or
    ``redis``."""

    @property
    def name(self) -> str:
        """What it is called on the command line and in reports."""
        return f"{self.component}: {self.fault}, {self.engine}"


ROWS = (
    *(
        row
        for engine in ("PostgreSQL", "SQLite")
        for row in (
            Row("server", "killed", faults.kill_server, engine, _ALL),
            Row("server", "frozen", faults.freeze_server, engine, (*_SERVING, "draining")),
            Row("server", "ended", faults.end_server, engine, _BUSY),
            Row("disk", "full", faults.fill_disk, engine, (*_BUSY, "starting"), "disk"),
            Row("disk", "slow", faults.slow_disk, engine, _BUSY, "disk"),
            Row("clock", "an hour ahead", faults.ahead, engine, _BUSY, "clock"),
            Row("clock", "an hour back", faults.back, engine, _BUSY, "clock"),
            Row("worker", "killed", faults.kill_worker, engine, ("runs",), "workers"),
            Row("worker", "frozen", faults.freeze_worker, engine, ("runs",), "workers"),
            Row("worker", "ended", faults.end_worker, engine, ("runs",), "workers"),
            Row("server", "killed beside workers", faults.kill_server, engine, ("runs",), "workers"),
        )
    ),
    Row("PostgreSQL", "killed", faults.kill_postgres, "PostgreSQL", _ALL),
    Row("PostgreSQL", "a backend killed", faults.kill_backend, "PostgreSQL", _SERVING),
    Row("PostgreSQL", "frozen", faults.freeze_postgres, "PostgreSQL", _ALL),
    Row("PostgreSQL", "restarted", faults.restart_postgres, "PostgreSQL", _ALL),
    Row("PostgreSQL", "killed beside workers", faults.kill_postgres, "PostgreSQL", ("runs",), "workers"),
    Row("PostgreSQL", "frozen beside workers", faults.freeze_postgres, "PostgreSQL", ("runs",), "workers"),
    Row("Redis", "killed", faults.kill_redis, "PostgreSQL", _SERVING, "redis"),
    Row("Redis", "frozen", faults.freeze_redis, "PostgreSQL", _SERVING, "redis"),
    Row("clients", "vanish, half open", faults.leave, "PostgreSQL", _BUSY),
    Row("clients", "slowloris", faults.slowloris, "PostgreSQL", _BUSY),
    Row("clients", "huge bodies", faults.huge_bodies, "PostgreSQL", _BUSY),
    Row("clients", "flood", faults.flood, "PostgreSQL", _BUSY),
)
ENDING = ("killed", "ended", "killed beside workers")
"""Faults of a server or a worker after which its process is gone."""

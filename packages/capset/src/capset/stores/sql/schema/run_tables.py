"""The tables of runs, schedules and workers, in addition to those of ``schema.tables``."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, Integer, Table, Text

from capset.stores.sql.schema.tables import metadata, session_column

runs: Final = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("org", "principal", "principal_kind", "kind")),
    session_column("runs", nullable=False),
    *(Column(name, Text, nullable=False) for name in ("agent", "caller", "content", "correlation")),
    *(Column(name, Text, nullable=False) for name in ("created_at", "state")),
    Column("attempts", Integer, nullable=False),
    *(Column(name, Text) for name in ("due_at", "begun_at", "ended_at", "outcome", "approval")),
    *(Column(name, Text) for name in ("queue", "on_behalf_of", "usage")),
    Index("ix_runs_org", "org", "id"),
    Index("ix_runs_principal", "org", "principal", "principal_kind", "id"),
    Index("ix_runs_state", "org", "state", "id"),
    Index("ix_runs_agent", "org", "agent", "id"),
    Index("ix_runs_queue", "org", "queue", "id"),
    Index("ix_runs_due", "queue", "due_at", "id"),
    Index("ix_runs_waiting", "state", "kind", "id"),
    Index("ix_runs_session", "session", "id"),
)
"""The runs: ``stores.base.RunRow``; ``caller``, ``content``, ``outcome`` and ``usage`` are JSON."""

schedules: Final = Table(
    "schedules",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("org", "principal", "principal_kind", "cron", "timezone")),
    *(Column(name, Text, nullable=False) for name in ("kind", "queue", "agent")),
    session_column("schedules"),
    *(Column(name, Text, nullable=False) for name in ("caller", "content", "created_at")),
    *(Column(name, Text) for name in ("next_at", "last_at", "last_run", "problem")),
    Index("ix_schedules_principal", "org", "principal", "principal_kind", "id"),
    Index("ix_schedules_due", "queue", "next_at", "id"),
    Index("ix_schedules_session", "session"),
)
"""The schedules: ``stores.base.ScheduleRow``; ``caller`` and ``content`` are JSON."""

workers: Final = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("queues", "started_at", "until")),
)
"""The workers: ``stores.base.WorkerRow``; ``queues`` is a JSON list of strings."""

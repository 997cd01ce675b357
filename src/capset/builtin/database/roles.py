"""Who may be logged in for queries: nobody for whom a SELECT could do more than read (spec 4, G30).

A read-only transaction stops writes to tables and sequences. It does not stop functions that work on files, on other
connections or on other servers; those PostgreSQL stops by the rights of the role. And since ``set_config('role', …)``
can be part of a SELECT, what counts is every role that the session's user can become.
"""

from __future__ import annotations

from typing import Any, Final, LiteralString

import psycopg

from capset import ToolError

POWERS: Final = [
    *("pg_read_server_files", "pg_write_server_files", "pg_execute_server_program"),
    *("pg_signal_backend", "pg_signal_autovacuum_worker", "pg_checkpoint", "pg_create_subscription"),
]
"""The roles of PostgreSQL's own whose members can do more than read."""
FUNCTIONS: Final = [
    # files of the server
    *("pg_read_file", "pg_read_binary_file", "pg_ls_dir", "pg_stat_file", "lo_import", "lo_export"),
    *("pg_file_write", "pg_file_rename", "pg_file_unlink", "pg_file_sync", "pg_logdir_ls"),
    # the server itself
    *("pg_reload_conf", "pg_rotate_logfile", "pg_switch_wal", "pg_promote", "pg_backup_start", "pg_backup_stop"),
    *("pg_create_restore_point", "pg_wal_replay_pause", "pg_stat_reset", "pg_stat_reset_shared"),
    # other servers, and this one again, outside of the transaction
    *("dblink", "dblink_connect", "dblink_connect_u", "dblink_exec", "dblink_open", "dblink_send_query"),
    *("http", "http_get", "http_post", "http_put", "http_patch", "http_delete", "http_head"),
]
"""Functions that a plain role may call only where somebody granted it, or where an extension lets everybody."""

_FOUND: Final[LiteralString] = """
WITH reachable AS (
    SELECT oid, rolname, rolsuper OR rolreplication AS powerful
    FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
)
SELECT CASE WHEN rolsuper THEN 'is a superuser' ELSE 'may replicate' END
FROM pg_catalog.pg_roles WHERE rolname = session_user AND (rolsuper OR rolreplication)
UNION ALL
SELECT 'can become ' || rolname FROM reachable WHERE powerful OR rolname::text = ANY(%s)
UNION ALL
SELECT 'may call ' || function.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc AS function
WHERE function.proname::text = ANY(%s) AND EXISTS (
    SELECT FROM reachable WHERE pg_catalog.has_function_privilege(reachable.oid, function.oid, 'EXECUTE')
)
LIMIT 1
"""


def check_role(connection: psycopg.Connection[Any], name: str) -> None:
    """Raise ``ToolError`` unless the session's user is one of whom a SELECT makes a reader and nothing else."""
    found = connection.execute(_FOUND, (POWERS, FUNCTIONS)).fetchone()
    if found is not None:
        raise ToolError(
            f"the database {name!r} is not asked: the role that its connection logs in with {found[0]}, so that a "
            "query could do more than read; its operator has to give it a role of its own that may only SELECT",
            code="role_too_powerful",
            status=403,
            hint="CREATE ROLE reader LOGIN; GRANT SELECT ON … TO reader; REVOKE EXECUTE ON … FROM PUBLIC",
        )

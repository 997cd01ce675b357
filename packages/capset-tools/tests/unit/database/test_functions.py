"""Names in a query that may call a function, in any surroundings (spec 4, G30)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_tools.database.child.failures import QueryFailure
from capset_tools.database.child.functions import ORDINARY, names_in

CONTENT = st.lists(st.sampled_from(["'", '"', "\\", "$", "$x$", "--", "\n", "/*", "*/", "hidden(", "é", "1"])).map(
    "".join
)
"""Texts with all that could end them too soon, or too late."""
PIECES = st.one_of(
    CONTENT.map(lambda text: "'" + text.replace("'", "''") + "'"),
    CONTENT.map(lambda text: "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"),
    CONTENT.map(lambda text: "e'a'\n'" + text.replace("\\", "\\\\").replace("'", "''") + "'"),
    CONTENT.map(lambda text: '"' + text.replace('"', '""') + '"'),
    CONTENT.map(lambda text: "$tag$" + text + "$tag$"),
    CONTENT.map(lambda text: "$$" + text.replace("$", "") + "$$"),
    CONTENT.map(lambda text: "--" + text.replace("\n", "") + "\n"),
    CONTENT.map(lambda text: "/*/* */" + text.replace("/", "") + "*/"),
    st.sampled_from(["a$x$", "$1", "1.5", ".5", "1e-5", "x'0f'", "U&'\\0061'", "B'1'", "a -> b"]),
)


@pytest.mark.spec("G30")
@given(st.lists(PIECES, max_size=4), st.lists(PIECES, max_size=4))
def test_a_call_is_found_and_what_only_looks_like_one_is_not(before: list[str], after: list[str]) -> None:
    query = f"SELECT {', '.join([*before, 'Found /* ( */ (1)', *after])}"
    assert names_in(query).called == {"found"}


@pytest.mark.spec("G30")
@given(st.text(alphabet="aE1'\"$\\/*-.(&u \n", max_size=20))
def test_a_query_is_read_or_refused(query: str) -> None:
    with suppress(QueryFailure):
        names_in(query)


@pytest.mark.spec("G30")
def test_a_long_query_that_is_never_closed_is_refused_at_once() -> None:
    for part in ("'", "''a", "E'\\", '"', "/*", "$x$", "(1", "a."):
        with suppress(QueryFailure):
            names_in(part * (65_536 // len(part)))


@pytest.mark.spec("G30", "T11")
def test_nothing_that_writes_waits_or_runs_sql_is_ordinary() -> None:
    others = """
        pg_sleep pg_sleep_for set_config nextval setval lo_create lo_unlink pg_notify pg_logical_emit_message dblink
        query_to_xml query_to_xmlschema cursor_to_xml table_to_xml schema_to_xml database_to_xml ts_stat ts_rewrite
        pg_advisory_lock pg_try_advisory_lock pg_advisory_xact_lock pg_read_file pg_ls_dir pg_terminate_backend
        pg_cancel_backend pg_reload_conf pg_export_snapshot txid_current pg_current_xact_id current_setting setseed
        pg_stat_reset pg_switch_wal pg_create_restore_point
    """
    assert not ORDINARY.intersection(others.split())

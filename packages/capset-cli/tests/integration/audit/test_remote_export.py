"""``capset audit key|export --url``: a chain and its key from a server, verified on another machine (G64, P97, P98)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli.support import Command, clean_environment
from tests.helpers.server.running import EVERYTHING, running


@pytest.mark.realtime
@pytest.mark.spec("G64", "P97", "P98")
def test_a_chain_and_its_key_from_one_server_show_integrity_and_not_origin(tmp_path: Path) -> None:
    server_folder, auditor_folder = tmp_path / "server" / "data", tmp_path / "auditor"
    server_folder.mkdir(parents=True)
    auditor_folder.mkdir()
    with running(server_folder, XDG_STATE_HOME=str(tmp_path / "state")) as server:
        keys = [server.key("auditor", org=org, scopes=EVERYTHING) for org in (None, "acme")]
        auditor, member = (Command(auditor_folder, clean_environment(auditor_folder, CAPSET_KEY=key)) for key in keys)
        remote = ("--url", server.url)
        printed = auditor("audit", "key", *remote)
        (auditor_folder / "server.pub").write_text(printed.out)
        exported = auditor("audit", "export", "--to", "records.ndjson", *remote, "--json")
        assert exported.code == 0, exported.err
        refused = member("audit", "export", "--to", "refused.ndjson", *remote)
        assert (refused.code, "only operators" in refused.said) == (3, True)
        assert not (auditor_folder / "refused.ndjson").exists()
        part = auditor("audit", "export", "--first", str(exported.json["last"] + 1), *remote)
        assert part.said == "1 record, 2 checkpoints over them", "what came since, anchored at the first export"
    verification = auditor("audit", "verify", "records.ndjson", "--key", "server.pub")
    first, second = verification.out.splitlines()
    assert first.startswith("integrity, not origin: the key ")
    assert f"comes from the server of the log, {server.url}" in first
    assert second == f"signed with that key: {exported.json['records']} records, every hash holds"
    assert verification.code == 0

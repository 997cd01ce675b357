"""The temporary folder of a process goes with it, and after it where it was killed (spec 4, G63)."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from capset_cli.common.temporary_folder import own_temporary_folder

HOLDING = """
import tempfile, time
from capset_cli.common.temporary_folder import own_temporary_folder
with own_temporary_folder() as folder:
    tempfile.NamedTemporaryFile(delete=False).close()
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for temporary files of this test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.mark.spec("G63")
def test_all_that_a_process_makes_is_in_a_folder_that_is_removed_in_the_end(root: Path) -> None:
    with own_temporary_folder() as folder:
        with own_temporary_folder() as inner:
            assert folder.exists()
            assert inner.parent == folder
        assert Path(tempfile.gettempdir()) == Path(os.environ["TMPDIR"]) == folder
        (folder / "file").write_text("left")
        assert folder.parent == root
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(root)
    assert list(root.iterdir()) == []


@pytest.mark.spec("G63")
@pytest.mark.skipif(os.name != "posix", reason="no folder can be locked")
def test_only_folders_of_this_kind_and_of_nobody_are_removed(root: Path) -> None:
    (root / "capset-process-dead").mkdir()
    (root / "capset-process-file").write_text("")
    (root / "elsewhere").mkdir()
    (root / "capset-process-link").symlink_to(root / "elsewhere")
    with own_temporary_folder() as folder:
        remaining = {"capset-process-file", "elsewhere", "capset-process-link", folder.name}
        assert {path.name for path in root.iterdir()} == remaining


@pytest.mark.spec("G63")
@pytest.mark.skipif(os.name != "posix", reason="no folder can be locked")
def test_where_no_folder_can_be_locked_only_its_own_is_removed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "as NFS says of a folder")

    monkeypatch.setattr("fcntl.flock", refuse)
    dead = root / "capset-process-dead"
    dead.mkdir()
    with own_temporary_folder() as folder:
        assert set(root.iterdir()) == {dead, folder}
    assert list(root.iterdir()) == [dead]


@pytest.mark.realtime
@pytest.mark.spec("G63")
@pytest.mark.skipif(os.name != "posix", reason="no folder can be locked")
def test_what_a_killed_process_has_left_goes_at_the_next_start_and_nothing_of_a_living_one(root: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        killed, living = [Path((process.stdout.readline() if process.stdout else "").strip()) for process in processes]
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        assert {killed, living} <= set(root.iterdir())
        assert len(list(killed.iterdir())) == len(list(living.iterdir())) == 1
        with own_temporary_folder() as folder:
            assert set(root.iterdir()) == {living, folder}
            assert len(list(living.iterdir())) == 1
    finally:
        for process in processes:
            process.kill()
            process.communicate()

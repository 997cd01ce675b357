"""file_read stays inside the workspace, whatever path it is given: every case of paths.yaml (spec 4, G31)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from capset import ToolError
from capset_testing import session_for
from capset_tools.files import FilesConfig, files, names_of, open_resolving, open_walking
from tests.security.trees import CAP, GENERATORS, SECRET, make_tree

CLASSES: Final[dict[str, dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("paths.yaml").read_text("utf-8"))
CONFIG: Final = FilesConfig(max_bytes=CAP)
OPENERS: Final = pytest.mark.parametrize("opener", [open_walking, open_resolving], ids=lambda opener: opener.__name__)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_tree(tmp_path.resolve())


def paths_of(name: str, root: Path) -> Iterator[str]:
    generated = GENERATORS[CLASSES[name]["generated"]]() if "generated" in CLASSES[name] else ()
    for path in (*CLASSES[name]["cases"], *generated):
        yield path.replace("{root}", str(root)).replace("{long}", "long" * 2000)


@pytest.mark.spec("G31", "G24", "G19", "T12")
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("encoding", ["utf-8", "base64"])
async def test_no_path_leads_out(name: str, encoding: str, workspace: Path) -> None:
    async with session_for(files, config=CONFIG, permissions=["file:read"], workspace=workspace) as desk:
        for number, path in enumerate(paths_of(name, workspace.parent)):
            call = desk.session.message("file_read", {"path": path, "encoding": encoding})
            result = await desk.session.try_message(call)
            assert result.error is not None, path
            assert result.error.code != "internal_error", path
            message = f"{result.error.message} {result.error.hint}"
            forbidden = [] if str(workspace.parent) in path else [str(workspace.parent)]
            assert [word for word in (SECRET, "Traceback", *forbidden) if word in message] == [], path
            records = await desk.records(tool="file_read")
            assert len(records) == number + 1
            assert records[-1].outcome == "failed", path


@OPENERS
@pytest.mark.spec("G31")
@pytest.mark.parametrize("name", [name for name in CLASSES if name != "too large"])
def test_both_ways_to_open_refuse_it(name: str, opener: Callable[..., int], workspace: Path) -> None:
    for path in paths_of(name, workspace.parent):
        with pytest.raises(ToolError):
            os.close(opener(workspace, names_of(path), path))


@OPENERS
@pytest.mark.parametrize("path", ["notes.txt", "./deep//inner.txt", "deep/../notes.txt", "links/fine", "links/whole"])
def test_both_ways_open_what_is_inside(path: str, opener: Callable[..., int], workspace: Path) -> None:
    with os.fdopen(opener(workspace, names_of(path), path), "rb") as file:
        assert file.read() in (b"mine", b"inner")


@OPENERS
@pytest.mark.spec("G31")
@pytest.mark.parametrize("path", ["place/secret.txt", "place/../place/secret.txt", "over/secret.txt", "one.txt"])
@pytest.mark.parametrize("back", [False, True], ids=["swapped", "swapped_back"])
def test_a_link_that_is_swapped_in_does_not_help(
    path: str, back: bool, opener: Callable[..., int], workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever look at the file system it happens before: the file inside is given, or none."""
    for moment in range(16):
        _swap_at(moment, workspace, path, opener, monkeypatch, back=back)


def _swap_at(
    moment: int, workspace: Path, path: str, opener: Callable[..., int], monkeypatch: pytest.MonkeyPatch, *, back: bool
) -> None:
    workspace = make_tree(workspace.parent / f"{moment}")
    (workspace / "place").mkdir()
    (workspace / "place" / "secret.txt").write_text("mine")
    (workspace / "one.txt").write_text("mine")
    (workspace / "over").symlink_to("place")
    looks = 0

    def swapping(look: Callable[..., Any], *args: Any, **options: Any) -> Any:
        nonlocal looks
        looks += 1
        for name, target in (("place", "../outside"), ("one.txt", "../outside/secret.txt")):
            if looks == moment + 1:
                (workspace / name).rename(workspace / f"{name}.old")
                (workspace / name).symlink_to(target)
            elif back and looks == moment + 2:
                (workspace / f"{name}.old").replace(workspace / f"{name}.new")
                (workspace / name).unlink()
                (workspace / f"{name}.new").rename(workspace / name)
        return look(*args, **options)

    with monkeypatch.context() as patched:
        for name in ("open", "stat", "lstat", "readlink"):
            patched.setattr(os, name, partial(swapping, getattr(os, name)))
        try:
            file = opener(workspace, names_of(path), path)
        except ToolError:
            return
    with os.fdopen(file, "rb") as opened:
        assert opened.read() == b"mine"


@pytest.mark.spec("G31")
async def test_a_file_that_was_swapped_for_a_pipe_is_not_waited_for(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def swapping(path: Any, *args: Any, **options: Any) -> int:
        if path == "notes.txt":
            (workspace / "notes.txt").unlink()
            os.mkfifo(workspace / "notes.txt")
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", swapping)
    async with session_for(files, permissions=["file:read"], workspace=workspace) as desk:
        result = await desk.session.try_message(desk.session.message("file_read", {"path": "notes.txt"}))
    assert result.error is not None
    assert result.error.code == "no_file"


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_says_why_and_has_three_cases(name: str) -> None:
    assert CLASSES[name]["why"]
    assert len(CLASSES[name]["cases"]) >= 3

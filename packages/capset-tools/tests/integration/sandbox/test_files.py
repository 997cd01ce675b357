"""The session's files in a run: seen and kept by permission, never over what others wrote (spec 5, P18, P22)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import PurePosixPath

import pytest

from capset import Agent, Capability, Kernel, Principal, Session, ToolError
from tests.helpers.tools.sandbox.support import ALL, EACH, box, configured, execute_code, named, run, texts
from tests.helpers.tools.session_file_system.support import MeddledStore
from tests.waiting import until

pytestmark = pytest.mark.realtime

WORK = {
    "python": """
import os
print(open('/in/notes.txt').read(), os.listdir('/in'), end='')
open('/new.txt', 'w').write('new')
open('/in/notes.txt', 'a').write('two')
os.remove('/in/old.txt')
os.makedirs('/deep/er')
open('deep/er/x', 'wb').write(b'A')
""",
    "bash": """
cat /in/notes.txt
printf new > /new.txt
printf two >> in/notes.txt
rm /in/old.txt
mkdir -p /deep/er
printf A > /deep/er/x
""",
}


@pytest.mark.spec("P18")
@pytest.mark.parametrize("language", EACH)
async def test_files_are_seen_under_their_paths_and_what_is_made_of_them_is_kept(language: str) -> None:
    async with box(language) as desk:
        files = desk.session.files
        for path, text in (("/in/notes.txt", b"one"), ("/in/old.txt", b"old"), ("/same.bin", b"\xff\x00")):
            await files.write(path, text)
        result = await run(desk.session, language, WORK[named(language)])
        assert result["stdout"].startswith("one")
        assert result["error"] is None
        changes = result["files"]
        assert (sorted(changes["created"]), changes["updated"], changes["deleted"]) == (
            ["/deep/er/x", "/new.txt"],
            ["/in/notes.txt"],
            ["/in/old.txt"],
        )
        assert (changes["shown"], changes["kept"], changes["not_kept"], changes["not_shown"]) == (True, True, [], [])
        assert (await files.read("/in/notes.txt"))[1] == b"onetwo"
        assert (await files.read("/same.bin"))[0].version == 1
        assert await files.stat("/in/old.txt") is None
        assert (await files.read("/deep/er/x"))[1] == b"A"


@pytest.mark.spec("P18")
@pytest.mark.parametrize("language", EACH)
async def test_directories_go_and_give_way_to_files(language: str) -> None:
    code = {
        "bash": "rm -r /d; echo file > /d; mkdir /f; rm -rf /f; mv /a /b; rm -r /e",
        "python": "import os\nfor p in ('/d/x/y', '/e/z'): os.remove(p)\nfor p in ('/d/x', '/d', '/e'): os.rmdir(p)\n"
        "open('/d', 'w').write('file\\n')\nos.rename('/a', '/b')",
    }[named(language)]
    async with box(language) as desk:
        for path in ("/d/x/y", "/e/z", "/a/b/c"):
            await desk.session.files.write(path, b"1")
        result = await run(desk.session, language, code)
        assert await texts(desk.session) == {"/d": "file\n", "/b/b/c": "1"}
        assert {entry.path for entry in await desk.session.files.list("/")} == {"/b", "/d"}
    assert result["files"]["not_kept"] == []


@pytest.mark.spec("P18")
@pytest.mark.parametrize("changed", ["write", "delete", "create"])
async def test_what_somebody_else_changed_meanwhile_stays_theirs(changed: str) -> None:
    store = MeddledStore()
    async with box(store=store) as desk:
        files = desk.session.files
        await files.write("/shared", b"before")
        await files.write("/mine", b"before")

        async def meddle() -> None:
            del store.meddling.before["write"]
            if changed == "delete":
                await files.delete("/shared")
            else:
                await files.write("/shared" if changed == "write" else "/fresh", b"theirs")

        store.meddling.before["write"] = meddle  # the first of what is written back, so that the run is over
        code = "for p in ('/shared', '/mine', '/fresh'): open(p, 'w').write('code')"
        result = await run(desk.session, "python", code)
        (unwritten,) = result["files"]["not_kept"]
        assert unwritten["path"] == ("/fresh" if changed == "create" else "/shared")
        assert "changed meanwhile" in unwritten["reason"]
        now = await texts(desk.session)
    assert now["/mine"] == "code"
    assert now.get(unwritten["path"]) == (None if changed == "delete" else "theirs")


@pytest.mark.spec("P18")
async def test_a_file_that_was_changed_is_not_deleted_either() -> None:
    store = MeddledStore()
    async with box(store=store) as desk:
        await desk.session.files.write("/shared", b"before")
        store.meddling.before["delete"] = lambda: desk.session.files.write("/shared", b"theirs")
        result = await run(desk.session, "bash", "rm /shared")
        assert await texts(desk.session) == {"/shared": "theirs"}
    assert [entry["path"] for entry in result["files"]["not_kept"]] == ["/shared"]


@asynccontextmanager
async def cancelled_as_it_writes(seconds: float) -> AsyncGenerator[Session]:
    """Give a session in which a call was cancelled twice while it wrote three files, each for so many seconds."""
    store = MeddledStore()
    async with box(store=store) as desk:
        store.meddling.before["write"] = lambda: asyncio.sleep(seconds)
        work = asyncio.create_task(run(desk.session, "bash", "for name in a b c; do printf 1 > /$name; done"))
        await until(lambda: store.meddling.asked["write"])
        for _ in range(2):
            work.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await work
        yield desk.session


@pytest.mark.spec("P18", "K15")
async def test_a_call_that_is_cancelled_as_it_writes_files_back_writes_all_of_them() -> None:
    async with cancelled_as_it_writes(0.05) as session:
        assert await texts(session) == {"/a": "1", "/b": "1", "/c": "1"}


@pytest.mark.spec("P18", "K15")
async def test_it_does_so_for_a_while_only(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("capset_tools.sandbox._KEEPING_SECONDS", 0.1)
    async with cancelled_as_it_writes(0.5) as session:
        assert await texts(session) == {}
        await asyncio.sleep(0.6)
        assert await texts(session) == {}
    assert "not all files were written back" in caplog.text


@pytest.mark.spec("P18", "K15")
async def test_what_fails_in_a_cancelled_call_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    store = MeddledStore()

    async def broken() -> None:
        await asyncio.sleep(0.05)
        raise RuntimeError("the disk is gone")

    async with box(store=store) as desk:
        store.meddling.before["write"] = broken
        work = asyncio.create_task(run(desk.session, "bash", "echo 1 > /a"))
        await until(lambda: store.meddling.asked["write"])
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert "the disk is gone" in caplog.text


@pytest.mark.spec("P18")
async def test_where_a_directory_was_nobody_elses_file_is_deleted() -> None:
    store = MeddledStore()
    async with box(store=store) as desk:
        files = desk.session.files
        await files.write("/d/a.txt", b"before")

        async def meddle() -> None:
            del store.meddling.before["delete"]
            await files.move("/d", "/old")
            await files.write("/d", b"theirs")

        store.meddling.before["delete"] = meddle
        result = await run(desk.session, "bash", "rm -r /d")
        assert await texts(desk.session) == {"/old/a.txt": "before", "/d": "theirs"}
    assert result["files"]["deleted"] == []


@pytest.mark.spec("P18")
async def test_what_grows_while_it_is_read_is_held_to_the_limits_and_what_goes_is_not_there() -> None:
    store = MeddledStore()
    async with box(store=store, max_bytes=1_000) as desk:
        files = desk.session.files
        for path in ("/a", "/b", "/gone"):
            await files.write(path, b"x" * 300)
        store.meddling.before["read_many"] = lambda: files.write("/a", b"x" * 701)
        grown = await desk.session.try_call(execute_code, language="bash", code="rm /a")
        assert isinstance(grown.error, ToolError)
        assert grown.error.code == "too_many_files"
        assert "3 with 1,301 bytes" in grown.error.message
        await files.write("/a", b"x")
        store.meddling.before["read_many"] = lambda: files.write("/a", b"x" * 400)
        assert (await run(desk.session, "bash", "cat /a | wc -c"))["stdout"].strip() == "400"
        store.meddling.before["read_many"] = lambda: files.delete("/gone")
        assert (await run(desk.session, "bash", "ls /gone || echo none"))["stdout"] == "none\n"


@pytest.mark.spec("P18")
async def test_all_that_a_run_may_have_by_default_is_read_at_one_moment() -> None:
    store = MeddledStore()
    async with box(store=store, max_files=1_001) as desk:
        for number in range(1_001):
            await desk.session.files.write(f"/{number}", b"%d" % number)
        before = store.meddling.asked.copy()
        result = await run(desk.session, "bash", "ls / | grep -c '^[0-9]'; cat /1000")
        assert result["stdout"] == "1001\n1000"
        assert store.meddling.asked - before == {"list": 1, "read_many": 2}


@pytest.mark.spec("P18", "G10", "T28")
@pytest.mark.parametrize("language", EACH)
async def test_running_code_is_no_way_around_the_permissions_of_files(language: str) -> None:
    show = {"python": "import os\nprint(os.listdir('/'))", "bash": "ls / | grep -v -e bin"}[named(language)]
    change = {"python": "open('/secret', 'w').write('x')", "bash": "rm -f /secret; echo x > /secret"}[named(language)]
    async with Kernel(store="memory://") as kernel:
        agent = Agent("coder", uses=[configured(language)])
        async with kernel.open(agent, principal=Principal("ada", permissions=ALL)) as session:
            await session.files.write("/secret", b"hush")
        for permissions in (["session_files:read"], ["session_files:write"], []):
            ada = Principal("ada", permissions=["sandbox:execute", *permissions])
            async with kernel.open(agent, principal=ada, session_id=session.id) as reopened:
                listing = await run(reopened, language, show)
                changed = await run(reopened, language, change)
                assert (
                    ("secret" in listing["stdout"])
                    is listing["files"]["shown"]
                    is ("session_files:read" in permissions)
                )
                assert changed["files"]["kept"] is ("session_files:write" in permissions)
                assert [entry["path"] for entry in changed["files"]["not_kept"]] == ["/secret"]
                assert (await reopened.files.read("/secret"))[1] == b"hush"
                if permissions == ["session_files:write"]:
                    assert "without the permission session_files:read" in changed["files"]["not_kept"][0]["reason"]


@pytest.mark.spec("P18", "P25")
@pytest.mark.parametrize("language", EACH)
async def test_what_a_capability_mounts_is_seen_and_stays(language: str) -> None:
    guide = Capability("guide", files={"/guide/one.txt": "mounted"})
    code = {"python": "open('/guide/one.txt', 'a').write('!')", "bash": "cat /guide/one.txt; rm -r /guide"}[
        named(language)
    ]
    ada = Principal("ada", permissions=ALL)
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("a", uses=[configured(language), guide]), principal=ada) as session,
    ):
        result = await run(session, language, code)
        assert (await session.files.read("/guide/one.txt"))[1] == b"mounted"
    assert ["read-only" in entry["reason"] for entry in result["files"]["not_kept"]] == [True]


@pytest.mark.spec("P18")
async def test_more_files_than_a_run_may_have_are_refused_before_anything_runs() -> None:
    async with box(max_files=2, max_bytes=1_000) as desk:
        await desk.session.files.write("/a", b"x" * 1_001)
        large = await desk.session.try_call(execute_code, language="bash", code="rm /a")
        for name in "abc":
            await desk.session.files.write(f"/{name}", b"1")
        many = await desk.session.try_call(execute_code, language="bash", code="rm /a")
    for refused in (large, many):
        assert isinstance(refused.error, ToolError)
        assert (refused.error.code, refused.error.status) == ("too_many_files", 413)


@pytest.mark.spec("P18", "P22")
async def test_what_a_path_cannot_be_is_named_and_the_rest_is_kept() -> None:
    long, deep = "x" * 1_100, "/".join("d" * 70)
    code = f"import os\nopen('/{long}', 'w').write('1')\nos.makedirs('/{deep}')\nopen('/{deep}/f', 'w').write('1')\n"
    async with box("monty") as desk:
        result = await run(desk.session, "monty", code + "open('/good', 'w').write('1')")
        assert list(await texts(desk.session)) == ["/good"]
    reasons = {PurePosixPath(entry["path"]).name[0]: entry["reason"] for entry in result["files"]["not_kept"]}
    assert "1024 bytes" in reasons["x"]
    assert "64 levels" in reasons["f"]


@pytest.mark.spec("P18")
@pytest.mark.parametrize("language", EACH)
async def test_files_where_a_system_has_directories_are_no_obstacle(language: str) -> None:
    contents = {path: path for path in ("/tmp", "/home", "/usr/q", "/bin/x/y", "/proc/x", "/dev/fd/3")}
    code = {"python": "open('/new', 'w').write('1')", "bash": "printf 1 > /new"}[named(language)]
    async with box(language) as desk:
        for path in contents:
            await desk.session.files.write(path, path.encode())
        result = await run(desk.session, language, code)
        assert await texts(desk.session) == {**contents, "/new": "1"}
    assert result["files"]["created"] == ["/new"]
    jailed = ["/dev/fd/3", "/proc/x", "/tmp"]
    assert [entry["path"] for entry in result["files"]["not_shown"]] == ([] if language == "monty" else jailed)


@pytest.mark.spec("P18")
async def test_a_file_that_bash_was_not_shown_is_not_replaced() -> None:
    async with box("bash") as desk:
        for path in ("/etc", "/tmp"):
            await desk.session.files.write(path, b"theirs")
        result = await run(desk.session, "bash", "rm -rf /etc /tmp; echo x > /etc; echo x > /tmp; printf 1 > /new")
        assert await texts(desk.session) == {"/etc": "theirs", "/tmp": "theirs", "/new": "1"}
    assert (result["files"]["created"], result["files"]["updated"]) == (["/new"], [])
    assert [entry["path"] for entry in result["files"]["not_shown"]] == ["/etc", "/tmp"]
    assert [entry["path"] for entry in result["files"]["not_kept"]] == ["/etc", "/tmp"]
    assert all("was not shown" in entry["reason"] for entry in result["files"]["not_kept"])


@pytest.mark.spec("P18")
async def test_links_and_pipes_are_named_and_what_bash_cannot_be_shown_is_too() -> None:
    async with box("bash") as desk:
        for path in ("/etc/passwd", "/dev/null", "/a", "/odd\nname"):
            await desk.session.files.write(path, b"1")
        code = "rm /a; ln -s /etc/passwd /a; ln -s / /all; mkfifo /pipe; cat /all/etc/group > /group"
        result = await run(desk.session, "bash", code)
        now = await texts(desk.session)
    assert {entry["path"] for entry in result["files"]["not_kept"]} == {"/a", "/all", "/pipe"}
    assert {entry["path"] for entry in result["files"]["not_shown"]} == {"/etc/passwd", "/dev/null"}
    assert now == {"/etc/passwd": "1", "/dev/null": "1", "/a": "1", "/odd\nname": "1", "/group": now["/group"]}
    assert now["/group"]

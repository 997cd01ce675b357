"""Settings come from flags, then from variables, then from the folder's file, then from the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset.errors import DefinitionError
from capset_cli.common.settings import load_settings
from tests.helpers.cli.support import Run


def written(folder: Path, text: str) -> Path:
    (folder / "capset.toml").write_text(text, encoding="utf-8")
    return folder


FILE = 'db = "file.db"\nprincipal = "filed"\ngrant = ["file:read", "file:write"]\n'
ENVIRON = {"CAPSET_DB": "env.db", "CAPSET_PRINCIPAL": "environed", "CAPSET_GRANT": "env:read, env:write,"}
WRITE = ("call", "session_file_system.write_file", "--args", '{"path": "/a.txt", "content": "x"}', "--json")


def test_the_nearer_source_wins_and_the_others_fill_in(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    default = load_settings(environ={}, folder=empty)
    assert (default.db, default.principal.id, default.principal.permissions) == ("sqlite:///capset.db", "local", set())
    folder = written(tmp_path, FILE)
    filed = load_settings(environ={}, folder=folder)
    assert (filed.db, filed.principal.id) == ("sqlite:///file.db", "filed")
    assert filed.principal.permissions == {"file:read", "file:write"}
    environed = load_settings(environ=ENVIRON, folder=folder)
    assert (environed.db, environed.principal.id) == ("sqlite:///env.db", "environed")
    assert environed.principal.permissions == {"env:read", "env:write"}
    flagged = load_settings(db="memory://", principal="flagged", grant=["a:b", "c:d"], environ=ENVIRON, folder=folder)
    assert (flagged.db, flagged.principal.id) == ("memory://", "flagged")
    assert flagged.principal.permissions == {"a:b", "c:d"}
    mixed = load_settings(principal="flagged", environ={"CAPSET_GRANT": "env:read"}, folder=folder)
    assert (mixed.db, mixed.principal.id, mixed.principal.permissions) == ("sqlite:///file.db", "flagged", {"env:read"})


def test_a_variable_that_is_empty_is_not_ignored(tmp_path: Path) -> None:
    folder = written(tmp_path, FILE)
    for nothing in ("", " , "):
        settings = load_settings(environ={"CAPSET_GRANT": nothing}, folder=folder)
        assert (settings.principal.id, settings.principal.permissions) == ("filed", set())
    assert load_settings(grant=["a:b"], environ={"CAPSET_GRANT": ""}, folder=folder).principal.permissions == {"a:b"}
    with pytest.raises(DefinitionError, match="a principal's id must be printable text, and not empty"):
        load_settings(environ={"CAPSET_PRINCIPAL": ""}, folder=folder)


@pytest.mark.parametrize("name", ["memory", "memory:", "memory:/"])
def test_memory_that_is_written_otherwise_makes_no_file(name: str, run: Run, tmp_path: Path) -> None:
    done = run(*WRITE, "--db", name)
    assert (done.code, "use memory://" in done.json["error"]["message"]) == (2, True)
    assert list(tmp_path.iterdir()) == []
    assert load_settings(db=f"sqlite:///{name}", environ={}, folder=tmp_path).db == f"sqlite:///{name}"
    assert load_settings(db="./memory", environ={}, folder=tmp_path).db == "sqlite:///./memory"


@pytest.mark.parametrize("line", [WRITE, ("audit", "query", "--json"), ("audit", "verify", "--json")])
def test_an_empty_name_of_the_database_is_refused(
    line: tuple[str, ...], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 'db = "file.db"')
    monkeypatch.setenv("CAPSET_DB", "")
    done = run(*line)
    assert (done.code, "names no file" in done.json["error"]["message"]) == (2, True)


def test_the_environment_is_the_files_with_the_flags_over_it(tmp_path: Path) -> None:
    folder = written(tmp_path, '[env]\ntier = "free"\nregion = "eu"\nlimits = {day = 5}\n')
    assert load_settings(environ={}, folder=folder).env == {"tier": "free", "region": "eu", "limits": {"day": 5}}
    options = [
        "tier=pro",
        'limits={"day": 6}',
        "on=true",
        "n=1.5",
        "none=null",
        "text=a=b",
        "empty=",
        "odd=NaN",
        'q="1"',
    ]
    assert load_settings(env=options, environ={}, folder=folder).env == {
        "tier": "pro",
        "region": "eu",
        "limits": {"day": 6},
        "on": True,
        "n": 1.5,
        "none": None,
        "text": "a=b",
        "empty": "",
        "odd": "NaN",
        "q": "1",
    }
    assert load_settings(env=["a=1", "a=2"], environ={}, folder=folder).env["a"] == 2, "the last one counts"


@pytest.mark.parametrize("option", ["tier", "", "=pro"])
def test_an_environment_that_is_no_pair_is_refused(option: str, run: Run) -> None:
    Path("a.yaml").write_text("name: a\n", encoding="utf-8")
    for line in (("compose", "a.yaml"), ("call", "noop.noop")):
        done = run(*line, "--env", option, "--json")
        assert done.code == 2
        assert "--env must be KEY=VALUE, such as tier=pro" in done.json["error"]["message"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("db = [", "capset.toml is not TOML: Invalid value (at end of document)"),
        ("db = \n", "(at line 1, column 6)"),
        ("a = " + "[" * 100_000, "capset.toml is not TOML"),
        ("a = " + "9" * 5_000, "capset.toml is not TOML"),
        ('dbb = "x"', "capset.toml: unknown field 'dbb'; did you mean 'db'?"),
        ("db = 5", "capset.toml: db must be text; got 5"),
        ("principal = []", "capset.toml: principal must be text; got []"),
        ('grant = "a:b"', "capset.toml: grant must be a list of permissions; got 'a:b'"),
        ("grant = [1]", "capset.toml: grant must be a list of permissions; got [1]"),
        ('env = "tier"', "capset.toml: env must be a table, such as [env]; got 'tier'"),
        ('grant = ["*"]', "a permission must match"),
        ('principal = ""', "a principal's id must be printable text, and not empty"),
    ],
)
def test_a_settings_file_that_is_wrong_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as refused:
        load_settings(environ={}, folder=written(tmp_path, text))
    assert message in refused.value.message


def test_a_settings_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "capset.toml").write_bytes(b'db = "\xff"')
    with pytest.raises(DefinitionError, match=r"capset\.toml is not UTF-8 text, at byte 6"):
        load_settings(environ={}, folder=tmp_path)
    (tmp_path / "capset.toml").unlink()
    (tmp_path / "capset.toml").mkdir()
    with pytest.raises(DefinitionError, match=r"capset\.toml cannot be read: Is a directory"):
        load_settings(environ={}, folder=tmp_path)


@pytest.mark.spec("G8")
def test_a_call_runs_with_exactly_the_permissions_granted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*WRITE).json["error"]["status"] == 403
    assert run(*WRITE, "--grant", "session_files:read").code == 3
    assert run(*WRITE, "--grant", "session_files:read", "--grant", "session_files:write").code == 0
    monkeypatch.setenv("CAPSET_GRANT", "session_files:read,session_files:write")
    assert run(*WRITE).code == 0
    monkeypatch.delenv("CAPSET_GRANT")
    written(tmp_path, 'grant = ["session_files:write"]')
    assert run(*WRITE).code == 0
    assert run(*WRITE, "--grant", "session_files:read").code == 3, "a flag stands in the file's place"


def test_the_record_names_the_principal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run(*WRITE)
    monkeypatch.setenv("CAPSET_PRINCIPAL", "environed")
    run(*WRITE)
    run(*WRITE, "--principal", "[red]flagged[/]")
    items = run("audit", "query", "--json").json["items"]
    assert [item["principal"] for item in items] == ["[red]flagged[/]", "environed", "local"]
    assert len(run("audit", "query", "--principal", "environed", "--json").json["items"]) == 1


def test_an_empty_flag_is_refused_not_ignored(run: Run) -> None:
    assert "and not empty" in run(*WRITE, "--principal", "").json["error"]["message"]
    assert "names no file" in run(*WRITE, "--db", "").json["error"]["message"]
    assert "a permission must match" in run(*WRITE, "--grant", "").json["error"]["message"]
    assert not Path("capset.db").exists()


def test_every_command_reads_the_database_that_is_set(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPSET_DB", "mine.db")
    assert run(*WRITE).code == 3
    assert len(run("audit", "query", "--json").json["items"]) == 1
    assert run("audit", "verify", "--db", "sqlite:///mine.db", "--json").json["checked"] == 2
    assert run("audit", "verify", "--db", str(Path.cwd() / "mine.db"), "--json").json["checked"] == 2
    assert not Path("capset.db").exists()


def test_files_may_begin_with_the_mark_of_utf_8(run: Run) -> None:
    Path("capset.toml").write_text('db = "sqlite:///own.db"\n', encoding="utf-8-sig")
    Path("values.json").write_text('{"a": 1, "b": 2}', encoding="utf-8-sig")
    assert run("call", "test_math.add", "--args", "@values.json", "--json").code == 0
    assert Path("own.db").exists()

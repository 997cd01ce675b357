"""The hash of the code behind a tool: of the files of its distribution, its package or its module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from types import ModuleType

import pytest

from capset import compose
from capset.composition.statics import collect_tool_hashes
from capset.definitions.tools.definition import AnyTool
from capset.evaluation.code import Code, code_of, known_code
from capset.fingerprint.canonical import digest
from capset.fingerprint.hashes import tool_hash
from capset.fingerprint.payloads import code_payload
from tests.distributions import fresh_import, install_wheel, make_wheel
from tests.helpers.evaluation.code import CODE, FILES, MORE, OTHER, installed, sums

pytestmark = pytest.mark.spec("F35")
Import = Callable[[str, Path], ModuleType]
"""Imports a module from a folder, whatever version was imported before."""
AddAt = Callable[[Path], AnyTool]


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Import:
    return lambda name, root: fresh_import(name, root, monkeypatch)


@pytest.fixture
def add_at(imported: Import) -> AddAt:
    return lambda root: imported("tinybox.tools", root).add


def hash_of(files: Mapping[str, str | bytes], *paths: str) -> str:
    return digest(code_payload(sums(files, *paths)))


def lay(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())


def lay_info(site: Path, name: str, version: str, direct_url: str) -> None:
    """Lay what an installer writes of a distribution."""
    info = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "direct_url.json": direct_url}
    lay(site, {f"{name}-{version}.dist-info/{path}": text for path, text in info.items()})


def editable(project: Path) -> str:
    return json.dumps({"url": project.as_uri(), "dir_info": {"editable": True}})


@pytest.mark.realtime
def test_it_covers_the_code_of_the_distribution_as_anybody_can_recompute(tmp_path: Path, add_at: AddAt) -> None:
    code = code_of(add_at(installed(tmp_path)))
    assert (code.kind, code.name, code.version, code.reason) == ("distribution", "tinybox", "1.0", None)
    assert (json.loads(code.covers or ""), code.hash) == (code_payload(sums(FILES, *CODE)), hash_of(FILES, *CODE))
    registered = known_code(code.hash or "")
    assert registered is not None
    assert registered.covers == code.covers, "the same files are in other distributions, too"
    if shutil.which("jq") is None or shutil.which("sha256sum") is None:
        pytest.skip("jq or sha256sum is not installed")
    zipfile.ZipFile(tmp_path / "tinybox-1.0-py3-none-any.whl").extractall(tmp_path / "unpacked")
    script = r"""
        find . -name __pycache__ -prune -o -type f \( -name '*.py' -o -name '*.so' \) -printf '%P\n' | xargs sha256sum |
        jq -jcRnS '{kind: "code", files: [inputs | {path: .[66:], digest: .[:64]}] | sort_by(.path)}' | sha256sum
    """
    printed = subprocess.check_output(["bash", "-c", script], cwd=tmp_path / "unpacked", text=True)
    assert printed.split()[0] == code.hash


@pytest.mark.spec("F12")
def test_the_hash_of_a_payload_that_is_written_down_does_not_move() -> None:
    payload = code_payload({"tiny/b.py": "b" * 64, "tiny/a.py": "a" * 64})
    assert [file["path"] for file in payload["files"]] == ["tiny/a.py", "tiny/b.py"]
    assert digest(payload) == "c1cee6c433e22ac313485860370ffb16082166e7d83e968ecd2eb38e5f464a48"


@pytest.mark.realtime
def test_other_code_is_another_hash_of_the_same_tool(tmp_path: Path, imported: Import) -> None:
    roots = (installed(tmp_path), installed(tmp_path, "1.1", sums=OTHER))
    before, after = [imported("tinybox.tools", root) for root in roots]
    assert before.add is not after.add
    assert code_of(before.add).hash != code_of(after.add).hash
    assert (code_of(before.add).version, code_of(after.add).version) == ("1.0", "1.1")
    assert tool_hash(before.add) == tool_hash(after.add)
    first, other = compose(before.adder), compose(after.adder)
    assert first.static_hash == other.static_hash
    assert collect_tool_hashes(first) == collect_tool_hashes(other)


@pytest.mark.realtime
def test_the_version_and_what_is_no_code_do_not_count(tmp_path: Path, add_at: AddAt) -> None:
    before = code_of(add_at(installed(tmp_path)))
    other = installed(tmp_path, "2.0")
    lay(other, {"tinybox/words.txt": "other data", "tinybox/beside.py": "in no RECORD"})
    lay(other, {"tinybox/__pycache__/sums.cpython-311.pyc": "compiled"})
    with (other / "tinybox-2.0.dist-info" / "RECORD").open("a", encoding="utf-8") as record:  # as pip does
        record.write("tinybox/__pycache__/sums.cpython-311.pyc,,\n../bin/script.py,,\n")
    lay(tmp_path, {"bin/script.py": "#!/a/path/of/this/machine"})
    after = code_of(add_at(other))
    assert before.hash == after.hash
    assert (before.version, after.version) == ("1.0", "2.0")


@pytest.mark.realtime
@pytest.mark.parametrize("name", ["_fast.so", "more.py"])
def test_every_file_of_code_counts(tmp_path: Path, add_at: AddAt, name: str) -> None:
    whole, changed, removed = [installed(tmp_path, version) for version in ("1.0", "1.1", "1.2")]
    (changed / "tinybox" / name).write_bytes(b"# other")
    (removed / "tinybox" / name).unlink()
    hashes = {code_of(add_at(root)).hash for root in (whole, changed, removed)}
    assert (len(hashes), None in hashes) == (3, False)


@pytest.mark.realtime
def test_a_distribution_is_read_once_however_many_ask(tmp_path: Path, add_at: AddAt) -> None:
    root = installed(tmp_path)
    add = add_at(root)
    codes = [code_of(replace(add, name=f"add_{number}")) for number in range(3)]
    lay(root, {"tinybox/sums.py": OTHER})
    codes += [code_of(__import__("tinybox.more").more.double), code_of(replace(add, name="late"))]
    assert all(code is codes[0] for code in codes), "its hash is that of the files as they were first read"


def test_of_many_threads_one_reads(tmp_path: Path, imported: Import) -> None:
    """The others wait for it: two who read a pipe at once would find two halves."""
    lay(tmp_path, {"tinypipe/__init__.py": "", "tinypipe/more.py": MORE})
    double: AnyTool = imported("tinypipe.more", tmp_path).double
    os.mkfifo(tmp_path / "tinypipe" / "slow.py")
    started = Barrier(9)

    def ask(number: int) -> Code:
        started.wait(10)
        return code_of(replace(double, name=f"double_{number}"))

    with ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(ask, number) for number in range(8)]
        started.wait(10)
        (tmp_path / "tinypipe" / "slow.py").write_text("x = 1", encoding="utf-8")
        codes = [future.result(10) for future in asking]
    assert all(code is codes[0] for code in codes)
    files = {"tinypipe/__init__.py": "", "tinypipe/more.py": MORE, "tinypipe/slow.py": "x = 1"}
    assert codes[0].hash == hash_of(files, *files)


def test_a_checkout_is_its_outermost_package(tmp_path: Path, add_at: AddAt) -> None:
    """As in a project that is not installed; all below it counts, but for caches and hidden folders."""
    deep = {"tinybox/deep/x.py": ""}
    lay(tmp_path, {**FILES, **deep, "tinybox/.venv/x.py": "", "tinybox/__pycache__/x.py": ""})
    code = code_of(add_at(tmp_path))
    assert (code.kind, code.name, code.version) == ("package", "tinybox", None)
    assert code.hash == hash_of({**FILES, **deep}, *CODE, *deep)


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"dir_info": {"editable": true}}', '{"dir_info": 5}'])
def test_an_install_that_is_not_described_as_in_pep_610_is_none(
    text: str, tmp_path: Path, add_at: AddAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path / "project" / "src", FILES)
    lay_info(tmp_path / "site", "other", "1", text)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    code = code_of(add_at(tmp_path / "project" / "src"))
    assert (code.kind, code.name, code.version) == ("package", "tinybox", None)


@pytest.mark.realtime
def test_an_editable_install_has_the_distributions_name_and_the_same_hash(
    tmp_path: Path, add_at: AddAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = code_of(add_at(installed(tmp_path))).hash
    project, site = tmp_path / "project", tmp_path / "site"
    lay(project / "src", FILES)
    lay_info(site, "tinybox", "3.0", editable(project))
    lay(site, {"tinybox-3.0.dist-info/RECORD": "tinybox.pth,,\n"})
    lay_info(site, "other", "1", "no JSON")
    monkeypatch.syspath_prepend(str(site))
    for place in ("first", "last"):
        lay_info(tmp_path / place, "around", "1", editable(tmp_path))
        lay_info(tmp_path / place, "beside", "1", editable(project / "other"))
    # Whichever comes first, the innermost project counts.
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path, str(tmp_path / "last")])
    code = code_of(add_at(project / "src"))
    assert (code.kind, code.name, code.version, code.hash) == ("package", "tinybox", "3.0", expected)


@pytest.mark.realtime
def test_a_package_within_a_namespace(tmp_path: Path, imported: Import) -> None:
    """In a wheel, and in a checkout: what else the namespace has is not its."""
    files = {"shared_ns/tinybit/__init__.py": "", "shared_ns/tinybit/more.py": MORE}
    site = install_wheel(make_wheel(tmp_path, "tinybit", "1.0", files), tmp_path / "site")
    lay(tmp_path / "src", files)
    for root, kind, name in ((site, "distribution", "tinybit"), (tmp_path / "src", "package", "shared_ns.tinybit")):
        lay(root, {"shared_ns/others/__init__.py": ""})
        code = code_of(imported("shared_ns.tinybit.more", root).double)
        assert (code.kind, code.name, code.hash) == (kind, name, hash_of(files, *files))


@pytest.mark.parametrize("name", ["tinyscript", "bare_ns.tinyscript"])
def test_a_module_of_no_package_is_itself(tmp_path: Path, imported: Import, name: str) -> None:
    lay(tmp_path, {f"{name.replace('.', '/')}.py": MORE, "beside.py": "x = 1"})
    code = code_of(imported(name, tmp_path).double)
    assert code == Code(hash_of({"tinyscript.py": MORE}, "tinyscript.py"), "module", "tinyscript.py")


@pytest.mark.realtime
def test_what_others_installed_wrongly_is_passed_over_and_what_is_not_listed_too(
    tmp_path: Path, add_at: AddAt, imported: Import
) -> None:
    root = installed(tmp_path)
    lay(root, {"tinybox-0.dist-info/RECORD": b"\xff,,\n", "tinybox-00.dist-info": "a file", "tinybox_plugin.py": MORE})
    (root / "tinybox-1.0.dist-info" / "METADATA").unlink()
    code, beside = code_of(add_at(root)), code_of(imported("tinybox_plugin", root).double)
    assert (code.kind, code.name, code.version) == ("distribution", "tinybox", None)
    assert code.hash == hash_of(FILES, *CODE)
    assert (beside.kind, beside.name) == ("module", "tinybox_plugin.py")


def test_what_cannot_be_read_has_no_hash(tmp_path: Path, imported: Import) -> None:
    lay(tmp_path, {"tinygone.py": MORE})
    double = imported("tinygone", tmp_path).double
    (tmp_path / "tinygone.py").unlink()
    assert code_of(double) == Code(None, reason="its files cannot be read: No such file or directory")

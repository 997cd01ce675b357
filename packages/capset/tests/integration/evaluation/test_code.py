"""The hash of the code behind a tool: of the files of its distribution, its package or its module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

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


def add_of(root: Path, monkeypatch: pytest.MonkeyPatch) -> AnyTool:
    return fresh_import("tinybox.tools", root, monkeypatch).add


@pytest.mark.realtime
def test_it_covers_the_code_of_the_distribution_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = code_of(add_of(installed(tmp_path), monkeypatch))
    assert (code.kind, code.name, code.version, code.reason) == ("distribution", "tinybox", "1.0", None)
    assert json.loads(code.covers or "") == code_payload(sums(FILES, *CODE))
    assert code.hash == digest(code_payload(sums(FILES, *CODE)))
    registered = known_code(code.hash)
    assert registered is not None
    assert registered.covers == code.covers, "the same files are in other distributions, too"


@pytest.mark.realtime
def test_anybody_can_recompute_it_from_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("jq") is None or shutil.which("sha256sum") is None:
        pytest.skip("jq or sha256sum is not installed")
    code = code_of(add_of(installed(tmp_path), monkeypatch))
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(tmp_path / "tinybox-1.0-py3-none-any.whl").extractall(unpacked)
    script = r"""
        find . -name __pycache__ -prune -o -type f \( -name '*.py' -o -name '*.so' \) -printf '%P\n' | xargs sha256sum |
        jq -jcRnS '{kind: "code", files: [inputs | {path: .[66:], digest: .[:64]}] | sort_by(.path)}' | sha256sum
    """
    printed = subprocess.check_output(["bash", "-c", script], cwd=unpacked, text=True)
    assert printed.split()[0] == code.hash


@pytest.mark.spec("F12")
def test_the_hash_of_a_payload_that_is_written_down_does_not_move() -> None:
    payload = code_payload({"tiny/b.py": "b" * 64, "tiny/a.py": "a" * 64})
    assert [file["path"] for file in payload["files"]] == ["tiny/a.py", "tiny/b.py"]
    assert digest(payload) == "c1cee6c433e22ac313485860370ffb16082166e7d83e968ecd2eb38e5f464a48"


@pytest.mark.realtime
def test_other_code_is_another_hash_of_the_same_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = add_of(installed(tmp_path), monkeypatch)
    after = add_of(installed(tmp_path, "1.1", sums=OTHER), monkeypatch)
    assert before is not after
    assert code_of(before).hash != code_of(after).hash
    assert (code_of(before).version, code_of(after).version) == ("1.0", "1.1")
    assert tool_hash(before) == tool_hash(after)
    agents = [
        fresh_import("tinybox.tools", tmp_path / f"site-{version}", monkeypatch).adder for version in ("1.0", "1.1")
    ]
    first, other = map(compose, agents)
    assert first.static_hash == other.static_hash
    assert collect_tool_hashes(first) == collect_tool_hashes(other)


@pytest.mark.realtime
def test_the_version_and_what_is_no_code_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = installed(tmp_path)
    before = code_of(add_of(first, monkeypatch))
    other = installed(tmp_path, "2.0")
    (other / "tinybox" / "words.txt").write_text("other data", encoding="utf-8")
    _lay(other, {"tinybox/beside.py": "in no RECORD", "tinybox/__pycache__/sums.cpython-311.pyc": "compiled"})
    with (other / "tinybox-2.0.dist-info" / "RECORD").open("a", encoding="utf-8") as record:  # as pip does
        record.write("tinybox/__pycache__/sums.cpython-311.pyc,,\n../bin/script.py,,\n")
    _lay(tmp_path, {"bin/script.py": "#!/a/path/of/this/machine"})
    after = code_of(add_of(other, monkeypatch))
    assert before.hash == after.hash
    assert (before.version, after.version) == ("1.0", "2.0")


@pytest.mark.realtime
@pytest.mark.parametrize("name", ["_fast.so", "more.py"])
def test_every_file_of_code_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = code_of(add_of(installed(tmp_path), monkeypatch))
    changed, removed = installed(tmp_path, "1.1"), installed(tmp_path, "1.2")
    (changed / "tinybox" / name).write_bytes(b"# other")
    (removed / "tinybox" / name).unlink()
    hashes = {before.hash, *(code_of(add_of(root, monkeypatch)).hash for root in (changed, removed))}
    assert len(hashes) == 3
    assert None not in hashes


@pytest.mark.realtime
def test_a_distribution_is_read_once_however_many_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = installed(tmp_path)
    add = add_of(root, monkeypatch)
    codes = [code_of(replace(add, name=f"add_{number}")) for number in range(3)]
    assert all(code is codes[0] for code in codes)
    (root / "tinybox" / "sums.py").write_text(OTHER, encoding="utf-8")
    double: AnyTool = __import__("tinybox.more").more.double
    assert code_of(double) is codes[0], "its hash is that of the files as they were first read"
    assert code_of(replace(add, name="late")) is codes[0]


def test_of_many_threads_one_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for it: two who read a pipe at once would find two halves."""
    _lay(tmp_path, {"tinypipe/__init__.py": "", "tinypipe/more.py": MORE})
    double: AnyTool = fresh_import("tinypipe.more", tmp_path, monkeypatch).double
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
    assert codes[0].hash == digest(code_payload(sums(files, *files)))


def test_a_checkout_is_its_outermost_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a project that is not installed; all below it counts, but for caches and hidden folders."""
    _lay(tmp_path / "src", FILES)
    _lay(tmp_path / "src", {"tinybox/.venv/x.py": "", "tinybox/__pycache__/x.py": "", "tinybox/deep/x.py": ""})
    code = code_of(add_of(tmp_path / "src", monkeypatch))
    assert (code.kind, code.name, code.version) == ("package", "tinybox", None)
    files = {**FILES, "tinybox/deep/x.py": ""}
    assert code.hash == digest(code_payload(sums(files, *CODE, "tinybox/deep/x.py")))


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"dir_info": {"editable": true}}', '{"dir_info": 5}'])
def test_an_install_that_is_described_otherwise_than_in_pep_610_is_none(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lay(tmp_path / "project" / "src", FILES)
    info = {"METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 1\n", "direct_url.json": text}
    _lay(tmp_path / "site", {f"other-1.dist-info/{path}": content for path, content in info.items()})
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    code = code_of(add_of(tmp_path / "project" / "src", monkeypatch))
    assert (code.kind, code.name, code.version) == ("package", "tinybox", None)


@pytest.mark.realtime
def test_an_editable_install_has_the_distributions_name_and_the_same_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = code_of(add_of(installed(tmp_path), monkeypatch)).hash
    _lay(tmp_path / "project" / "src", FILES)
    url = json.dumps({"url": (tmp_path / "project").as_uri(), "dir_info": {"editable": True}})
    _lay(
        tmp_path / "site",
        {
            "tinybox-3.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinybox\nVersion: 3.0\n",
            "tinybox-3.0.dist-info/RECORD": "tinybox.pth,,\n",
            "tinybox-3.0.dist-info/direct_url.json": url,
            "other-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 1\n",
            "other-1.dist-info/direct_url.json": "no JSON",
        },
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name, url in (("around", tmp_path), ("beside", tmp_path / "project" / "other")):
        direct_url = json.dumps({"url": url.as_uri(), "dir_info": {"editable": True}})
        info = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", "direct_url.json": direct_url}
        for site in ("first", "last"):
            _lay(tmp_path / site, {f"{name}-1.dist-info/{path}": text for path, text in info.items()})
    # Whichever comes first, the innermost project counts.
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path, str(tmp_path / "last")])
    code = code_of(add_of(tmp_path / "project" / "src", monkeypatch))
    assert (code.kind, code.name, code.version, code.hash) == ("package", "tinybox", "3.0", expected)


@pytest.mark.realtime
def test_a_package_within_a_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a wheel, and in a checkout: what else the namespace has is not its."""
    files = {"shared_ns/tinybit/__init__.py": "", "shared_ns/tinybit/more.py": MORE}
    site = install_wheel(make_wheel(tmp_path, "tinybit", "1.0", files), tmp_path / "site")
    _lay(site, {"shared_ns/others/__init__.py": ""})
    wheel = code_of(fresh_import("shared_ns.tinybit.more", site, monkeypatch).double)
    assert (wheel.kind, wheel.name) == ("distribution", "tinybit")
    _lay(tmp_path / "src", {**files, "shared_ns/others/__init__.py": ""})
    checkout = code_of(fresh_import("shared_ns.tinybit.more", tmp_path / "src", monkeypatch).double)
    assert (checkout.kind, checkout.name) == ("package", "shared_ns.tinybit")
    assert wheel.hash == checkout.hash == digest(code_payload(sums(files, *files)))


@pytest.mark.parametrize("name", ["tinyscript", "bare_ns.tinyscript"])
def test_a_module_of_no_package_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _lay(tmp_path, {f"{name.replace('.', '/')}.py": MORE, "beside.py": "x = 1"})
    code = code_of(fresh_import(name, tmp_path, monkeypatch).double)
    assert code == Code(digest(code_payload(sums({"tinyscript.py": MORE}, "tinyscript.py"))), "module", "tinyscript.py")


@pytest.mark.realtime
def test_a_module_that_a_distribution_does_not_list_is_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = installed(tmp_path)
    (root / "tinybox_plugin.py").write_text(MORE, encoding="utf-8")
    code = code_of(fresh_import("tinybox_plugin", root, monkeypatch).double)
    assert (code.kind, code.name) == ("module", "tinybox_plugin.py")


@pytest.mark.realtime
def test_what_others_installed_wrongly_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = installed(tmp_path)
    _lay(root, {"tinybox-0.dist-info/RECORD": b"\xff,,\n", "tinybox-00.dist-info": "a file"})
    (root / "tinybox-1.0.dist-info" / "METADATA").unlink()
    code = code_of(add_of(root, monkeypatch))
    assert (code.kind, code.name, code.version) == ("distribution", "tinybox", None)
    assert code.hash == digest(code_payload(sums(FILES, *CODE)))


def test_what_cannot_be_read_has_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _lay(tmp_path, {"tinygone.py": MORE})
    double = fresh_import("tinygone", tmp_path, monkeypatch).double
    (tmp_path / "tinygone.py").unlink()
    assert code_of(double) == Code(None, reason="its files cannot be read: No such file or directory")


def _lay(folder: Path, files: Mapping[str, Any]) -> None:
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())

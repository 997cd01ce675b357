"""The locks of what npm installs, and what is said where it cannot."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts import npm

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", ["lab/conformance", "lab/clients/generated", "lab/clients/mcp_clients"])
def test_packages_are_pinned_and_their_lock_names_no_address_to_fetch_from(folder: str) -> None:
    pinned: dict[str, str] = json.loads((ROOT / folder / "package.json").read_bytes())["devDependencies"]
    lock = json.loads((ROOT / folder / "package-lock.json").read_bytes())["packages"]
    assert {name: lock[f"node_modules/{name}"]["version"] for name in pinned} == pinned
    assert [name for name, package in lock.items() if "resolved" in package] == []
    assert [name for name, package in lock.items() if name and "integrity" not in package] == []


@pytest.mark.realtime
def test_what_cannot_be_installed_is_named_and_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_offline", "true")
    manifest = {"devDependencies": {"capset-nothing": "1.0.0"}}
    locked = {"": manifest, "node_modules/capset-nothing": {"version": "1.0.0"}}
    (tmp_path / "package.json").write_text(json.dumps(manifest))
    (tmp_path / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": locked}))
    with pytest.raises(npm.NotInstalled, match=f"npm could not install {tmp_path.name}: npm ci ended with 1; it needs"):
        npm.install(tmp_path)
    assert not (tmp_path / "node_modules" / ".capset-installed").exists()
    assert "capset-nothing" in capfd.readouterr().err


@pytest.mark.realtime
def test_of_two_that_install_one_folder_at_once_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("npm_config_offline", "true")
    manifest = {"devDependencies": {"here": "file:here"}}
    locked = {"": manifest, "here": {"version": "1.0.0"}, "node_modules/here": {"resolved": "here", "link": True}}
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "package.json").write_text(json.dumps({"name": "here", "version": "1.0.0"}))
    (tmp_path / "package.json").write_text(json.dumps(manifest))
    (tmp_path / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": locked}))
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(npm.install, tmp_path) for _ in range(2)]:
            done.result()
    assert (tmp_path / "node_modules" / "here").exists()
    assert capfd.readouterr().err.count("installing what package-lock.json names") == 1


@pytest.mark.realtime
def test_exact_versions_are_installed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("npm_config_offline", "true")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "package.json").write_text(json.dumps({"name": "here", "version": "1.0.0"}))
    for _ in range(2):
        npm.install_exactly(tmp_path / "cache", {"here": f"file:{tmp_path / 'here'}"})
    assert (tmp_path / "cache" / "node_modules" / "here" / "package.json").exists()
    assert capfd.readouterr().err.count("installing what package.json names") == 1
    with pytest.raises(npm.NotInstalled, match="npm could not install cache: npm install ended with 1"):
        npm.install_exactly(tmp_path / "cache", {"capset-nothing": "1.0.0"})

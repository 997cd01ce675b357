"""The files of ``deploy/``: what they start exists, and systemd takes them (docs/guide/deploy.md)."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.commands import commands_in, unknown_words

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
UNITS: Final = ("capset.service", "capset-backup.service", "capset-backup.timer")
PAGES: Final = (ROOT / "docs/guide/deploy.md", ROOT / "docs/guide/containers.md")
GUIDE: Final = "".join(path.read_text(encoding="utf-8") for path in PAGES)


@pytest.mark.parametrize("name", [*UNITS, "Containerfile"])
def test_every_command_in_a_file_is_one_with_these_options(name: str) -> None:
    for words in commands_in((DEPLOY / name).read_text(encoding="utf-8")):
        assert unknown_words(words) == [], words


@pytest.mark.realtime
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for name in UNITS:
        unit = (DEPLOY / name).read_text(encoding="utf-8")
        assert "\t" not in unit
        # The program that is to be installed is not, here.
        (tmp_path / name).write_text(unit.replace("/opt/capset/bin/capset", "/bin/true"), encoding="utf-8")
    if shutil.which("systemd-analyze"):  # which not every system has
        command = ["systemd-analyze", "verify", *(tmp_path / name for name in UNITS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_unit_that_stops_lets_requests_end() -> None:
    from capset_server.http.uvicorn_server import DRAIN_SECONDS

    unit = (DEPLOY / "capset.service").read_text(encoding="utf-8")
    match = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert match
    assert int(match[1]) > 2 * DRAIN_SECONDS


def test_the_container_copies_what_is_there_and_runs_as_nobody_special() -> None:
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    steps = [line.split(None, 1) for line in lines if line and not line.lstrip().startswith("#")]
    instructions = {"FROM", "COPY", "WORKDIR", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL"}
    assert {name for name, _ in steps} <= instructions | {"ENTRYPOINT", "CMD"}
    for name, rest in steps:
        if name == "COPY" and "--from" not in rest:
            assert all((ROOT / source).exists() for source in shlex.split(rest)[:-1]), rest
    names = [name for name, _ in steps]
    assert names.index("USER") > len(names) - names[::-1].index("FROM") - 1, "in the image that runs"
    extras = set(re.findall(r"--extra (\w+)", " ".join(lines)))
    project = (ROOT / "packages/capset/pyproject.toml").read_text(encoding="utf-8")
    assert extras <= set(re.findall(r"^(\w+) = \[", project, re.MULTILINE))


def test_the_proxy_holds_no_stream_back_and_repeats_no_call() -> None:
    text = re.sub(r"#.*", "", (DEPLOY / "nginx.conf").read_text(encoding="utf-8"))
    assert text.count("{") == text.count("}")
    statements = [line.strip() for line in text.splitlines() if line.strip()]
    assert all(line.endswith((";", "{", "}")) for line in statements)
    for needed in ("proxy_buffering off;", "proxy_next_upstream off;", "proxy_set_header Host $host;"):
        assert needed in statements


def test_the_guide_names_every_file() -> None:
    for path in DEPLOY.iterdir():
        assert f"deploy/{path.name}" in GUIDE, path.name

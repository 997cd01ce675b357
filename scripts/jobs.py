"""The jobs of the three levels of checks, run to their end: ``python scripts/jobs.py gate|nightly|weekly [JOB …]``.

``.ci/run`` is the gate. Each job is a target of the Makefile; its output goes to ``.reports/LEVEL/JOB.log``, and what
came of all of them to a table and to ``.reports/LEVEL/jobs.json``. Jobs of the weekly level that have passed on a
commit are not run again on it. This script needs the standard library alone, since it installs everything else.

Exit codes: 0 if all jobs passed, 1 if one did not, 2 for a usage error.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
REPORTS: Final = ROOT / ".reports"
AT_ONCE: Final = 2
"""Jobs that run beside each other, on two cores."""
JOB_SECONDS: Final = {"gate": 1_800, "nightly": 7_200, "weekly": 36_000}
TAIL_LINES: Final = 150
DISK_BYTES: Final = 6 << 30


EXAMPLES: Final = ("quickstart.py", "agent_turns.py", "approvals.py", "curl.sh", "mcp_client.py", "runs.py")
"""Those that the gate runs; ``make nightly`` runs all."""


@dataclass(frozen=True)
class Job:
    """A target of the Makefile, with variables, and the level from which on it is run."""

    name: str
    command: tuple[str, ...]
    alone: bool = False
    """Whether nothing else may run beside it: it measures, or lives on real time."""


def job(name: str, *command: str, alone: bool = False) -> Job:
    return Job(name, command or (name,), alone)


GATE: Final = (
    job("test"),
    job("check"),
    job("docs"),
    job("examples", "examples", f"ARGS={' '.join(EXAMPLES)}"),
    job("conformance", "lab-conformance"),
    job("console", "lab-console", "ARGS=-m 'browser and gate'"),
    job("clients", "lab-clients", "ARGS=-m 'clients and gate'"),
    job("frontends", "lab-frontends", "ARGS=-m 'clients and gate'"),
    job("realtime", "lab-realtime", "ARGS=-m 'realtime and gate'", alone=True),
)
NIGHTLY: Final = (
    job("check"),
    job("test", "test", "SHUFFLE=1", "LEVEL=nightly"),
    job("uvloop", "lab-uvloop"),
    job("examples"),
    job("docs"),
    job("conformance", "lab-conformance"),
    job("console", "lab-console"),
    job("clients", "lab-clients"),
    job("mcpclients", "lab-mcpclients"),
    job("frontends", "lab-frontends"),
    job("formats", "lab-formats"),
    job("frameworks", "lab-frameworks"),
    job("wheels", "lab-wheels"),
    job("corpus", "lab-corpus"),
    job("mcpservers", "lab-mcpservers", alone=True),
    job("realtime", "lab-realtime", "ARGS=--shuffle --processes 4", alone=True),
)
WEEKLY: Final = (
    job("faults", "lab-faults", alone=True),
    job("siege", "lab-siege", alone=True),
    job("load", "lab-load", alone=True),
    job("scale", "lab-scale", alone=True),
    job("mutants", "lab-mutants", alone=True),
    job("soak", "lab-soak", alone=True),
    job("mixed-soak", "lab-mixed-soak", alone=True),
    job("sandbox-corpus", "lab-sandbox-corpus"),
    job("bfcl", "lab-bfcl", "ARGS=--known"),
    job("guardbench", "lab-guardbench"),
    job("agentdojo", "lab-agentdojo"),
    job("bombs", "lab-bombs", alone=True),
)
LEVELS: Final = {"gate": GATE, "nightly": NIGHTLY, "weekly": WEEKLY}


@dataclass
class Result:
    """The result of a job."""

    name: str
    outcome: str
    seconds: float
    load: float
    tests: str = ""
    flaky: list[str] = field(default_factory=list[str])


def main(arguments: list[str]) -> int:
    """Run the jobs of a level, or those of them that are named, and print the table."""
    level, *names = arguments or [""]
    if level not in LEVELS:
        print(f"jobs: expected one of {', '.join(LEVELS)}; got {level!r}", file=sys.stderr)
        return 2
    if unknown := set(names) - {job.name for job in LEVELS[level]}:
        print(f"jobs: {level} has no job {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    folder = REPORTS / level
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    if (problem := preflight() or install(folder)) is not None:
        print(f"environment: {problem}")
        return 1
    chosen = [job for job in LEVELS[level] if not names or job.name in names]
    done = finished(folder) if level == "weekly" and not names else {}
    results = list(done.values()) + run_all([job for job in chosen if job.name not in done], level, folder)
    results.sort(key=lambda result: [job.name for job in LEVELS[level]].index(result.name))
    save(folder, results)
    print_table(level, results, time.monotonic() - began)
    failed = sum(result.outcome != "passed" for result in results)
    print(f"\n{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


def preflight() -> str | None:
    """Return what this machine lacks, if it lacks something."""
    if sys.version_info < (3, 11):  # noqa: UP036  # it runs before anything is installed
        return f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}"
    lacking = [program for program in ("git", "make", "bash") if shutil.which(program) is None]
    if lacking:
        return f"{', '.join(lacking)} must be installed"
    free = shutil.disk_usage(ROOT).free
    if free < DISK_BYTES:
        return f"{DISK_BYTES >> 30} GiB of disk are needed, and {free >> 30} are free"
    return None


def install(folder: Path) -> str | None:
    """Install all that jobs share, with a second try; return what went wrong."""
    log = folder / "install.log"
    for _ in range(2):
        with log.open("wb") as output:
            done = subprocess.run(
                "make --no-print-directory setup && "
                "scripts/install_for_tests.sh curl jq gcc redis-server pgbouncer chromium",
                shell=True,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode == 0:
            return None
    return f"the packages could not be installed:\n{tail_of(log)}"


def run_all(jobs: list[Job], level: str, folder: Path) -> list[Result]:
    """Run jobs, two at a time, and those that must be alone after the others."""
    results: list[Result] = []
    waiting = deque(sorted(jobs, key=lambda job: job.alone))
    running: set[Future[Result]] = set()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while waiting or running:
            while waiting and len(running) < (1 if waiting[0].alone else AT_ONCE):
                running.add(pool.submit(run, waiting.popleft(), level, folder))
                if waiting and waiting[0].alone:
                    break
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                result = future.result()
                results.append(result)
                save(folder, results)
                print(f"{result.name}: {result.outcome} in {result.seconds:.0f} s {result.tests}", flush=True)
                if result.outcome != "passed":
                    print(tail_of(folder / f"{result.name}.log"), flush=True)
    return results


def run(job: Job, level: str, folder: Path) -> Result:
    """Run one job to its end."""
    log, report = folder / f"{job.name}.log", folder / f"{job.name}.json"
    report.unlink(missing_ok=True)
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["make", "--no-print-directory", *job.command],
            cwd=ROOT,
            env={**os.environ, "CAPSET_REPORT": str(report)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(JOB_SECONDS[level])
            outcome = "passed" if status == 0 else f"failed ({status})"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            outcome = f"failed (more than {JOB_SECONDS[level]} s)"
    result = Result(job.name, outcome, time.monotonic() - began, os.getloadavg()[0])
    if report.exists():
        test_report = json.loads(report.read_text())
        result.tests, result.flaky = test_report["summary"], test_report["flaky"]
    return result


def finished(folder: Path) -> dict[str, Result]:
    """Return the jobs that have passed on this commit, by their names."""
    saved = folder / "jobs.json"
    if not saved.exists():
        return {}
    report = json.loads(saved.read_text())
    if report["commit"] != commit():
        return {}
    return {row["name"]: Result(**row) for row in report["jobs"] if row["outcome"] == "passed"}


def save(folder: Path, results: list[Result]) -> None:
    saved = {row.name: asdict(row) for row in (*finished(folder).values(), *results)}
    report = {"commit": commit(), "jobs": list(saved.values())}
    (folder / "jobs.json").write_text(json.dumps(report, indent=1) + "\n")


def commit() -> str:
    """Return the commit of the working tree."""
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def tail_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])


def print_table(level: str, results: list[Result], seconds: float) -> None:
    """Print what came of the jobs, a line each, and the flaky tests below."""
    print(f"\n{level} of {commit()[:12]}, {seconds / 60:.1f} minutes, {os.cpu_count()} cores")
    print(f"{'job':16} {'result':12} {'seconds':>8} {'load':>6} {'reruns':>7}  tests")
    for row in results:
        print(f"{row.name:16} {row.outcome:12} {row.seconds:8.0f} {row.load:6.1f} {len(row.flaky):7}  {row.tests}")
    for row in results:
        for line in row.flaky:
            print(f"flaky in {row.name}: {line}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The JSON-Schema-Test-Suite, from the source distribution of ``jsonschema``: capset's verdicts beside the suite's.

All required tests of three drafts are run, in which ``format`` only annotates. Schemas that refer to others elsewhere
are counted apart: capset fetches nothing, and says so.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urldefrag, urljoin

from capset.errors import DefinitionError
from capset.schemas.json_schema import JsonSchema, compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch
from lab.corpus import CACHE, Failed
from lab.corpus.nodes import elements, is_list, is_object, members

NAME: Final = "jsonschema"
VERSION: Final = "4.26.0"
FOLDER: Final = CACHE / "schemas"
DRAFTS: Final = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
"""The dialect of the schemas in each folder of the suite."""
LEAST_TESTS: Final = 2_500
"""The suite has more required tests in these drafts."""
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

Verdict = Literal["same", "different", "refused"]
"""``refused`` says so when the schema is compiled; ``different`` does not."""


class JudgedTest(NamedTuple):
    """A test of the suite, and capset's verdict beside the suite's."""

    draft: str
    title: str
    is_remote: bool
    """Whether its schema refers to another one, which is not inside it."""
    verdict: Verdict
    reason: str = ""


def fetch() -> Path:
    """Download the suite, and return the folder with the folders of its drafts. Raises ``Failed`` if that fails."""
    suite, mark = FOLDER / "tests", FOLDER / ".capset-setup"
    if mark.exists() and mark.read_text(encoding="utf-8") == VERSION:
        return suite
    print(f"corpus: downloading the source of {NAME} {VERSION} into {FOLDER}", file=sys.stderr, flush=True)
    uv, environment, source = Path(sys.executable).with_name("uv"), FOLDER / "environment", FOLDER / "source"
    # pip is the one that downloads a source distribution.
    _run([uv, "venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, environment])
    _run([uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python", "pip"])
    download = [environment / "bin" / "python", "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", NAME]
    _run([*download, "--dest", source, f"{NAME}=={VERSION}"])
    archive = source / f"{NAME}-{VERSION}.tar.gz"
    with tarfile.open(archive) as packed:
        tests = [file for file in packed.getmembers() if "/json/tests/" in file.name and file.name.endswith(".json")]
        packed.extractall(source, tests, filter="data")
    shutil.rmtree(suite, ignore_errors=True)
    unpacked = source / f"{NAME}-{VERSION}" / "json" / "tests"
    if not unpacked.is_dir():
        raise Failed(f"the source of {NAME} {VERSION} has no JSON-Schema-Test-Suite in json/tests")
    unpacked.rename(suite)
    mark.write_text(VERSION, encoding="utf-8")
    return suite


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{NAME} {VERSION} cannot be downloaded; it needs the package index\n{done.stderr[-2_000:]}")


def run() -> bool:
    """Run the suite, print what differs, and return whether every bound is met."""
    suite = fetch()
    return report([test for draft in DRAFTS for test in judge(suite / draft)])


def report(tests: Sequence[JudgedTest], least: int = LEAST_TESTS) -> bool:
    """Print the verdicts by draft, and return whether all are the same but for what is elsewhere."""
    print(f"{'':28} {'tests':>6} {'same':>6} {'refused':>8} {'different':>10}")
    for draft in DRAFTS:
        for is_remote, title in ((False, draft), (True, f"{draft}, remote")):
            counts = Counter(test.verdict for test in tests if (test.draft, test.is_remote) == (draft, is_remote))
            numbers = f"{counts['same']:6,} {counts['refused']:8,} {counts['different']:10,}"
            print(f"{title:28} {counts.total():6,} {numbers}")
    for test in tests:
        if test.verdict == "different" or (test.verdict == "refused" and not test.is_remote):
            print(f"{test.verdict}: {test.draft} {test.title}: {test.reason}")
    local = [test for test in tests if not test.is_remote]
    same = sum(test.verdict == "same" for test in local)
    silent = sum(test.verdict == "different" for test in tests)
    bounds = {
        f"at least {least:,} tests ({len(tests):,})": len(tests) >= least,
        f"all tests without remote references the same ({same:,} of {len(local):,})": same == len(local),
        f"no test differs silently ({silent})": not silent,
    }
    for bound, is_met in bounds.items():
        print(f"{'met   ' if is_met else 'MISSED'}  {bound}")
    return all(bounds.values())


def judge(folder: Path) -> Iterator[JudgedTest]:
    """Yield capset's verdicts on the required tests in the folder of a draft."""
    for file in sorted(folder.glob("*.json")):
        for group in json.loads(file.read_bytes()):
            schema, title = group["schema"], f"{file.stem}: {group['description']}"
            is_remote = refers_elsewhere(schema, DRAFTS[folder.name])
            try:
                compiled: JsonSchema | DefinitionError = _compile(schema, DRAFTS[folder.name])
            except DefinitionError as error:
                compiled = error
            for test in group["tests"]:
                verdict, reason = _verdict(compiled, test)
                yield JudgedTest(folder.name, f"{title}: {test['description']}", is_remote, verdict, reason)


def _compile(schema: Any, dialect: str) -> JsonSchema:
    """Compile a schema as that of a foreign tool is; tools have no boolean schemas, so those stand in another."""
    root_schema = schema if is_object(schema) else {"$schema": dialect, "allOf": [schema]}
    return compile_json_schema("the schema", {"$schema": dialect, **members(root_schema)})


def _verdict(compiled: JsonSchema | DefinitionError, test: dict[str, Any]) -> tuple[Verdict, str]:
    if isinstance(compiled, DefinitionError):
        return "refused", compiled.message
    try:
        compiled.check(test["data"])
    except SchemaMismatch as mismatch:
        return ("different", f"it is valid, and was refused: {mismatch}") if test["valid"] else ("same", "")
    return ("same", "") if test["valid"] else ("different", "it is not valid, and was taken")


def refers_elsewhere(schema: object, dialect: str) -> bool:
    """Whether a schema refers to another document, or is of a dialect that another document describes."""
    if members(schema).get("$schema", dialect) != dialect:
        return True
    identifiers, references = {""}, set[str]()
    _collect(schema, "", identifiers, references)
    return not references <= identifiers


def _collect(value: object, base: str, identifiers: set[str], references: set[str]) -> None:
    """Collect the identifiers of schemas inside a value, and those that they refer to, without fragments."""
    if is_list(value):
        for item in elements(value):
            _collect(item, base, identifiers, references)
        return
    node = members(value)
    if isinstance(identifier := node.get("$id"), str):
        base = _joined(base, identifier)
        identifiers.add(base)
    for key in _REFERENCES:
        if isinstance(reference := node.get(key), str):
            references.add(_joined(base, reference))
    for item in node.values():
        _collect(item, base, identifiers, references)


def _joined(base: str, reference: str) -> str:
    """Return what a reference is relative to a base, without its fragment; a base may be a URN."""
    plain = urldefrag(reference).url
    if not plain:
        return base
    return plain if _ABSOLUTE.match(plain) else urldefrag(urljoin(base, plain)).url

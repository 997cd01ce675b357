"""A comparison as text."""

from __future__ import annotations

from typing import Any

import pytest

from capset.evaluation.compare.comparison import diff_envelopes, diff_sides
from capset.evaluation.compare.report import format_diff_report, report_lines
from capset.evaluation.compare.sides import Side
from capset.fingerprint.canonical import digest
from capset.fingerprint.hashes import Ref
from capset.fingerprint.links import create_link
from tests.helpers.evaluation.compare.versions import agent, earlier, envelope_of, later, notes, plain

pytestmark = pytest.mark.spec("F30", "F31")


def test_the_whole_report() -> None:
    first, other = earlier(), later()
    before, after = ({tool.name: tool.hash[:12] for tool in side.runtime.tools} for side in (first, other))
    old, new = first.link, other.link
    diff = diff_envelopes(first, other)
    assert diff.definition is not None
    notes_before, notes_after = (diff.definition[1].before[:12], diff.definition[1].after[:12])
    assert format_diff_report(diff).splitlines() == [
        "Nothing in common: different definition, tools in play and prompt.",
        "",
        "hashes",
        f"~ static      {old.static_hash[:12]} → {new.static_hash[:12]}",
        f"~ runtime     {old.runtime_hash[:12]} → {new.runtime_hash[:12]}",
        f"~ prompt      {old.prompt_hash[:12]} → {new.prompt_hash[:12]}",
        "= invocation  –",
        "",
        "tools (1 stayed)",
        f"+ export_notes  {after['export_notes']}, read",
        f"- delete_note   {before['delete_note']}, destructive, needs notes:write",
        f"~ find_notes    {before['find_notes']} → {after['find_notes']}",
        '    ~ description                      "Find notes." → "Find notes by any word."',
        '    + permissions[]                    "notes:write"',
        "    ~ schema.properties.limit.maximum  10 → 20",
        '    + gates[]                          "always"',
        f"~ list_notes    {after['list_notes']}, different policies",
        '    + gates[]  "always"',
        "",
        "policies",
        "+ always  allow",
        "",
        "prompt",
        '+ instructions[2]  "Name your sources."',
        '~ systemPrompt     …thing else whatever people ask of you. Measure." → '
        '…thing else whatever people ask of you. Judge."',
        "",
        "definition",
        f"~ agent  {old.static_hash[:12]} → {new.static_hash[:12]}",
        f"    ~ capabilities[notes].hash  {notes_before} → {notes_after}",
        '    + instructions[1]           "Name your sources."',
        '    ~ systemPrompt              …lse whatever people ask of you. Measure." → '
        '…lse whatever people ask of you. Judge."',
        f"~ capability notes  {notes_before} → {notes_after}",
        '    + policies[]              "always"',
        f"    - tools[delete_note]      delete_note {before['delete_note']}",
        f"    + tools[export_notes]     export_notes {after['export_notes']}",
        f"    ~ tools[find_notes].hash  {before['find_notes']} → {after['find_notes']}",
        "",
        "not hashed",
        "  env differs in: tier",
    ]


def test_where_nothing_differs_there_is_nothing_but_the_hashes() -> None:
    lines = format_diff_report(diff_envelopes(later(), later())).splitlines()
    assert (lines[0], len(lines)) == ("Same in all: definition, tools in play and prompt.", 7)


def test_of_links_alone_it_says_that_no_more_is_known() -> None:
    lines = format_diff_report(diff_sides(Side(earlier().link), Side(later().link))).splitlines()
    unknown = "only the hashes are known, not the payloads"
    assert lines[lines.index("prompt") + 1] == f"  {unknown}"
    assert lines[lines.index("definition") + 1] == f"  {unknown}"
    changed = next(place for place, line in enumerate(lines) if line.startswith("~ find_notes"))
    assert lines[changed + 1] == f"      {unknown}"
    assert "policies" not in lines


def test_a_flip_says_why() -> None:
    lines = format_diff_report(diff_envelopes(earlier(), earlier(env={"day": False}, mode="hint"))).splitlines()
    start = lines.index("policies") + 1
    assert lines[start : start + 2] == ["~ by_day  allow → deny (closed at night)", "~ mode  authoritative → hint"]


@pytest.mark.parametrize("width", [1, 60, 80, 100, 160])
def test_long_values_are_cut_to_where_they_differ(width: int) -> None:
    first, other = (envelope_of(agent(system_prompt=f"{'a' * 500}{word}{'b' * 500}")) for word in ("ONE", "TWO"))
    diff = diff_envelopes(first, other)
    lines = [line for line in report_lines(diff, width=width) if "systemPrompt" in line.text]
    assert lines
    for line in lines:
        assert all((line.is_truncated, "ONE" in line.text, "TWO" in line.text, len(str(line)) <= max(width, 70)))
    assert not any(line.is_truncated for line in report_lines(diff_envelopes(earlier(), earlier()), width=width))
    assert not any(line.is_truncated for line in report_lines(diff, width=5000))


def test_however_narrow_it_is_sixteen_characters_of_a_value_are_there() -> None:
    diff = diff_sides(side({"kind": "prompt", "name": "save"}), side({"kind": "prompt", "name": "save", "x": "a" * 50}))
    (line,) = (line for line in report_lines(diff, width=1) if line.text.startswith("x "))
    assert (line.text, line.is_truncated) == (f'x  "{"a" * 14}…', True)


def test_a_text_from_elsewhere_makes_no_line_of_its_own() -> None:
    nasty = "x\n+ forged  allow\x1b[31m\u202e\u2028"
    first = envelope_of(agent(uses=[notes([plain("it", description=nasty)])], system_prompt=nasty), agent_id=nasty)
    other = envelope_of(agent(uses=[notes([plain("it")])]), env={nasty: 1})
    lines = format_diff_report(diff_envelopes(first, other)).split("\n")
    assert all(line.isprintable() and not line.startswith("+ forged") for line in lines)


def side(*payloads: dict[str, Any]) -> Side:
    """Return a version with these tools in play, as somebody else's link and payloads might say it."""
    by_hash = {digest(payload): payload for payload in payloads}
    refs = [Ref(payload["name"], key) for key, payload in by_hash.items()]
    static, prompt = "a" * 64, "b" * 64
    link = create_link(agent_id="1", agent_name="a", static_hash=static, prompt_hash=prompt, tool_refs=refs)
    return Side(link, by_hash)


@pytest.mark.parametrize("sign", ["+", "-"])
def test_what_a_payload_says_of_its_effect_and_permissions_is_spelled_out(sign: str) -> None:
    effect, needs = "read\n+ forged  allow", ["n:read\x1b[2K\r", "n:write\u202e", "\u2028"]
    tool = side({"kind": "tool", "name": "save", "effect": effect, "permissions": needs})
    lines = format_diff_report(diff_sides(side(), tool) if sign == "+" else diff_sides(tool, side())).split("\n")
    (line,) = (line for line in lines if line.startswith(f"{sign} save"))
    (payload_hash,) = tool.payloads
    needed = "n:read\\u001b[2K\\r and n:write\\u202e and \\u2028"
    assert line == f"{sign} save  {payload_hash[:12]}, read\\n+ forged  allow, needs {needed}"
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("members", "suffix"),
    [
        ({"effect": "write", "permissions": []}, ", write"),
        ({"effect": "write", "permissions": "n:read"}, ", write"),
        ({"permissions": ["n:read", 7]}, ", needs n:read and 7"),
        ({"effect": None}, ", None"),
        ({}, ""),
    ],
)
def test_a_payload_of_another_shape_is_told_as_far_as_it_goes(members: dict[str, Any], suffix: str) -> None:
    tool = side({"kind": "tool", "name": "save", **members})
    (payload_hash,) = tool.payloads
    assert f"+ save  {payload_hash[:12]}{suffix}" in format_diff_report(diff_sides(side(), tool)).split("\n")

"""The lines of a file's members, and what it costs to know them (spec 4, G28)."""

from __future__ import annotations

import tracemalloc

import pytest

from capset_connect.config_file.source_positions import lines_of

NAME = "k" * 100_000
ITEMS = ",\n".join("0" * 5_000)


@pytest.mark.spec("G28")
@pytest.mark.parametrize(
    ("suffix", "text", "first"),
    [
        (".yaml", f"? {NAME}\n: [{ITEMS}]\nb: 1\n", 1),
        (".toml", f"[{NAME}]\n" + "".join(f"{n} = 1\n" for n in range(5_000)) + "[b]\n", 1),
    ],
)
def test_where_paths_are_too_much_the_line_above_is_told(suffix: str, text: str, first: int) -> None:
    tracemalloc.start()
    try:
        lines = lines_of(suffix, text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1_048_576
    assert lines.of(f"{NAME}.3") == 5
    assert lines.of(f"{NAME}.4000") == lines.of(NAME) == first
    assert lines.of("b") == text.count("\n", 0, text.rindex("b")) + 1


@pytest.mark.spec("G28")
def test_json_has_lines_whatever_it_is_indented_with() -> None:
    lines = lines_of(".json", '{\n\t"a": {"b":1,\n\t"c": [\n\t\t"\\u0041\\/",\n\t\ttrue]},\n\r\n"d" : null\n}')
    assert [lines.of(path) for path in ("a", "a.b", "a.c", "a.c.0", "a.c.1", "d")] == [2, 2, 3, 4, 5, 7]


@pytest.mark.spec("G28")
def test_toml_is_as_deep_as_it_says_and_not_as_its_texts_look() -> None:
    dots = ".".join("a" * 200)
    text = f'x = """{dots}""" # {dots}\ny = "{dots}"\n{".".join("a" * 90)} = 1\n[{".".join("b" * 90)}]\nc = 1\n'
    lines = lines_of(".toml", text)
    assert lines.of("a.a.a") == 3
    assert lines.of(".".join("b" * 90) + ".c") == 5


@pytest.mark.spec("G28")
@pytest.mark.parametrize("letter", ["\x85", "\u2028", "\x0c", "\x1c"])
def test_lines_of_toml_end_where_its_parser_ends_them(letter: str) -> None:
    lines = lines_of(".toml", f"# one{letter}line\r\na = 1\r\n[b]\r\nc = 1\r\n")
    assert (lines.of("a"), lines.of("b"), lines.of("b.c")) == (2, 3, 4)

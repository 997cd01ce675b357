"""The text that is made of HTML, whatever the HTML is, in linear time."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_tools.email.messages import plain_text

NOTHING = "This email is in HTML and has no text."


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>One</p><p>Two</p>", "One\nTwo"),
        ("One<br>Two<br/>Three", "One\nTwo\nThree"),
        ("<ul><li>One<li>Two</ul>", "- One\n- Two"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
        ("Tom &amp; Ada &lt;3 &#x1F30D;", "Tom & Ada <3 🌍"),
        ("a  \n b\t<b>c</b>d", "a b cd"),
        ("<style>p{}</style><script>if (a<b) '</p>'</script>Hi<!-- not <p>this</p> -->!", "Hi!"),
        ('<a href="https://a.example/?x=1&amp;y=2">here</a>', "here (https://a.example/?x=1&y=2)"),
        ("<A HREF=mailto:ada@example.org>Ada</A>", "Ada (mailto:ada@example.org)"),
        ("<a href='javascript:alert(1)'>here</a>", "here"),
        ("<a name=top>here</a>", "here"),
        ("<p title=\"a > b\" class='x>'>Hi</p>", "Hi"),
        ("<p don't>Hi</p>", "Hi"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<!DOCTYPE html><title>No</title><body>Yes", "Yes"),
        ("Hi <!-- never closed", "Hi"),
        ("Hi <p never closed", "Hi"),
        ("Hi <script>never closed", "Hi"),
        ("", NOTHING),
        ("<img src=x>", NOTHING),
        ("&#0;&#xD800;", "\ufffd\ufffd"),
        ("<p>&#" + "9" * 5_000 + ";</p>&lt;", "&#" + "9" * 5_000 + ";\n<"),
    ],
)
def test_what_html_says(html: str, text: str) -> None:
    assert plain_text(html) == text


@given(st.text("<>!-/'\"=& abscriptlye#;x1\n\0", max_size=60))
def test_any_text_has_one(html: str) -> None:
    text = plain_text(html)
    assert text
    assert "\0" not in text


@pytest.mark.realtime
@pytest.mark.spec("G32")
@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<!",
        "<!--",
        "<a ",
        "</",
        "<a '",
        "<a href='",
        "<a href=",
        "&",
        "&#",
        "<script>",
        "<li>",
        "-",
        "a",
        "\n",
        "<a href=x >y</a>",
    ],
)
def test_it_takes_linear_time(piece: str) -> None:
    """Eight times as much takes far less than 64 times as long; the shortest of some rounds counts."""
    small, large = piece * 4_000, piece * 32_000

    def seconds(html: str) -> float:
        rounds: list[float] = []
        for _ in range(3):
            began = process_time()
            plain_text(html)
            rounds.append(process_time() - began)
        return min(rounds)

    assert seconds(large) < 24 * max(seconds(small), 0.001)

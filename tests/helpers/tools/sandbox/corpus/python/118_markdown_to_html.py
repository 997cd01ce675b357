# Convert simple Markdown to HTML: headings, lists, bold, italics, code and links.
import html
import re

SOURCE = """# Title & more

Some *emphasis*, **strong text**, `code < 5` and a [link](https://example.org/?a=1).
Second line of the paragraph.

- first
- second **item**

1. one
2. two

## Code

```
for i in range(3):
    print(i < 2)
```
> quoted
"""


def inline(text):
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"\*(.+?)\*", r"<em>\1</em>", text)
    return re.sub(r"\[(?P<label>[^\]]+)\]\((?P<url>[^)]+)\)", r'<a href="\g<url>">\g<label></a>', text)


def convert(source):
    for block in re.split(r"\n{2,}", re.sub(r"```\n(.*?)```", lambda m: "\n\n\x00" + m[1].replace("\n", "\x01") + "\n\n", source, flags=re.S)):
        lines = block.strip("\n").split("\n")
        if block.strip("\n").startswith("\x00"):
            yield f"<pre>{html.escape(lines[0][1:]).replace(chr(1), chr(10))}</pre>"
        elif m := re.match(r"(#{1,6}) (.*)", lines[0]):
            yield f"<h{len(m[1])}>{inline(m[2])}</h{len(m[1])}>"
        elif all(line.startswith("- ") for line in lines):
            yield "<ul>" + "".join(f"<li>{inline(line[2:])}</li>" for line in lines) + "</ul>"
        elif all(re.match(r"\d+\. ", line) for line in lines):
            yield "<ol>" + "".join(f"<li>{inline(line.split('. ', 1)[1])}</li>" for line in lines) + "</ol>"
        elif lines[0].startswith("> "):
            yield f"<blockquote>{inline(lines[0][2:])}</blockquote>"
        elif lines != [""]:
            yield f"<p>{inline(' '.join(lines))}</p>"


print("\n".join(convert(SOURCE)))
print(re.findall(r"^#+ .*$", SOURCE, re.M), len(re.findall(r"\b\w+\b", SOURCE)))

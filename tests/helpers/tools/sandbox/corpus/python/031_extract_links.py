# Get all links and the plain text out of this HTML without other libraries.
import html
from html.parser import HTMLParser

PAGE = """<html><head><title>Shop &amp; More</title><style>p {color: red}</style></head>
<body><h1>Welcome</h1><p>See <a href="/deals?x=1&amp;y=2">our <b>deals</b></a> or
<a href='mailto:me@example.org'>write</a>.</p><br/><a name="top">no link</a><script>var a = "<p>";</script></body></html>"""


class Links(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.links, self.text, self._skip, self._href = [], [], 0, None

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "style"):
            self._skip += 1
        if tag == "a":
            self._href = dict(attrs).get("href")
            self._label = []

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._skip -= 1
        if tag == "a" and self._href:
            self.links.append((self._href, "".join(self._label)))
            self._href = None

    def handle_data(self, data):
        if self._skip:
            return
        self.text.append(data)
        if self._href:
            self._label.append(data)


parser = Links()
parser.feed(PAGE)
for href, label in parser.links:
    print(f"{label!r} -> {href}")
print(" ".join("".join(parser.text).split()))
print(html.escape('<a href="x">Tom & "Jerry"</a>'), html.unescape("&lt;p&gt; &eacute; &#8364; &#x41;"))

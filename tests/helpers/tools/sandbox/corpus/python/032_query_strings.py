# Take these URLs apart, sort their query parameters, and drop the tracking ones.
from urllib.parse import parse_qs, parse_qsl, quote, unquote_plus, urlencode, urljoin, urlsplit, urlunsplit

urls = [
    "https://user@Example.com:8443/a%20b/c?utm_source=news&b=2&a=1&b=3#frag",
    "http://example.org/?q=caf%C3%A9+au+lait&empty=",
    "/relative/path;x?z=1",
]


def clean(url):
    parts = urlsplit(url)
    query = sorted((k, v) for k, v in parse_qsl(parts.query, keep_blank_values=True) if not k.startswith("utm_"))
    return urlunsplit(parts._replace(query=urlencode(query), fragment=""))


for url in urls:
    p = urlsplit(url)
    print(p.scheme or "-", p.hostname, p.port, p.path, p.fragment or "-")
    print("  ", clean(url))

print(parse_qs("a=1&a=2&b=x%26y"))
print(quote("a b/c?d=é"), quote("a/b", safe=""), unquote_plus("1+%2B+1"))
print(urljoin("http://h.org/a/b/c.html", "../d.html"), urljoin("http://h.org/a/", "//other.net/x"))
print(urlencode({"tags": ["x", "y"], "n": 5}, doseq=True))

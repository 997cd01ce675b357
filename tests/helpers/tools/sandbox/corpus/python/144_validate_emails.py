# Check these email addresses and phone numbers with regular expressions and normalise the good ones.
import re

EMAIL = re.compile(r"^(?!.*\.\.)[\w.+-]+(?<!\.)@(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)+[a-z]{2,}$", re.I | re.A)
emails = ["ann@example.org", "bob.smith+tag@Mail.Example.co.uk", "no-at.example.org", "two..dots@x.org", "dot.@x.org",
          "a@b", "ü@example.org", "x@-bad.org", "x@good-host.io", " spaced@x.org"]
for e in emails:
    print(f"{e:<36}{bool(EMAIL.match(e))}")

PHONE = re.compile(r"(?:\+|00)?(?P<cc>49|1)?[\s(-]*0?(?P<area>\d{2,4})[\s)/-]+(?P<rest>\d[\d\s-]{4,}\d)")
for text in ["+49 (0) 30 / 1234-567", "call 1-800-555 0199 now", "0049 89 99 88 77 66", "no number"]:
    if m := PHONE.search(text):
        print(m.span(), m.groupdict(), re.sub(r"\D", "", m["rest"]))
    else:
        print("none in", repr(text))

text = "Invoice 2024-001 of 03/15/2024: $1,234.50; refund $-20, tax 19% (see #12, #007)."
print(re.findall(r"\$-?[\d,]+(?:\.\d\d)?", text), re.findall(r"#(\d+)", text), re.split(r"[:;,]\s*", text))
print(re.sub(r"(\d\d)/(\d\d)/(\d{4})", r"\3-\1-\2", text)[:40], re.subn(r"\d", "9", "a1b22"))
print([m.start() for m in re.finditer(r"(?=aba)", "ababababa")], re.match(r"(a+)(b)?", "aaa").groups(), re.escape("a.b*c"))
print(re.fullmatch(r"(\w)(\w).?\2\1", "radar") is not None, re.findall(r"(?i)\bthe\b", "The theme of the day"), re.split(r"(-)", "a-b-c"))
print(re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", "1234567"), re.findall(r"<(.+?)>", "<a><b c>"), re.search(r"^b.*$", "a\nbc\nd", re.M)[0])
try:
    re.compile("(unclosed")
except re.error as e:
    print("re.error:", e.msg, e.pos)

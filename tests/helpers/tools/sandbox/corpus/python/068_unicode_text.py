# Normalise these names for searching: remove accents, fold case, and show the code points.
import unicodedata

names = ["Café", "Cafe\u0301", "Straße", "ÅNGSTRÖM", "naïve", "ﬁne", "Ｆｕｌｌ", "Łódź", "İstanbul"]


def plain(text):
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c)).casefold()


for name in names:
    print(f"{name} len={len(name)} utf8={len(name.encode())} plain={plain(name)} lower={name.lower()!r}")
print(names[0] == names[1], unicodedata.normalize("NFC", names[1]) == names[0])
for ch in "é€😀\u200d":
    print(f"U+{ord(ch):04X} {unicodedata.category(ch)} {unicodedata.name(ch)} {ch.encode('utf-8').hex(' ')}")
flag = "👩\u200d💻🇩🇪"
print(len(flag), len(flag.encode("utf-16-le")) // 2, [hex(ord(c)) for c in flag])
print("ß".upper(), "ǆ".title(), "٣".isdigit(), int("٣"), "½".isnumeric(), "½".isdigit(), "Ⅷ".lower(), unicodedata.numeric("½"))
print("abc\u00a0def ghi".split(), "日本語".center(9, "*"), "mañana"[::-1], "x" in "日本", sorted("zäaöé"))
print("é".encode("ascii", "replace"), "é".encode("ascii", "xmlcharrefreplace"), b"\xff\xfeok".decode("utf-8", "replace"), "\N{GREEK SMALL LETTER PI}")
try:
    b"\xff".decode("utf-8")
except UnicodeDecodeError as e:
    print(e)

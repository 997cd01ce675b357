# Fill this letter for each customer with string.Template, and say which fields are missing.
from string import Formatter, Template

letter = Template("""Dear $title $name,
your balance is $$${balance}USD; please pay by ${due_date}.
""")
customers = [
    {"title": "Dr.", "name": "Who", "balance": 12.5, "due_date": "1 May"},
    {"title": "Ms", "name": "Marple", "balance": 0},
]
for customer in customers:
    try:
        print(letter.substitute(customer))
    except KeyError as e:
        print(f"missing {e} for {customer['name']}")
        print(letter.safe_substitute(customer, balance=f"{customer['balance']:.2f} "))
print(sorted({n for _, n, _, _ in Formatter().parse("{a} {b.c!r:>10} {d[0]} {{x}}") if n}))
print("{0.name} {0.size[w]:>4} {rest[1]}".format(type("T", (), {"name": "obj", "size": {"w": 7}})(), rest="xyz"))
print("{a:{w}.{p}f}|{b!s:^7}|{c:,}".format(a=3.14159, w=8, p=2, b=None, c=1234567), "%(n)s has %(k)5.2f%%" % {"n": "x", "k": 99.5})


class Percent(Template):
    delimiter = "%"


print(Percent("100%% of %who at %{where}s").substitute(who="us", where="home"))
try:
    Template("cost: $5").substitute()
except ValueError as e:
    print(e)
print("-".join("abc"), "a,b,,c".split(","), "a b  c".split(), "k=v=w".partition("="), "k=v=w".rsplit("=", 1), "x".zfill(4), "-7".zfill(4))
print("Hello".swapcase(), "tést".encode("utf-8"), "abcabc".rfind("b"), "  x ".strip() + "|", "xxhixx".strip("x"), "pre-fix".removeprefix("pre-"), "a\tb".expandtabs(4))

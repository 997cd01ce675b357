# Show all that print can do: separators, ends, files, flush, and several lines.
import sys

print("a", "b", "c", sep="-")
print("no newline", end="; ")
print("then", "more", end="\n\n")
print(*range(5), sep=", ")
print(*["x", "y"], *("z",), sep="\n", end=" <end>\n")
print("error message", 42, sep=": ", file=sys.stderr, flush=True)
with open("out.txt", "w") as f:
    print("line", 1, file=f)
    print({"k": [1, 2.0, None, True]}, file=f)
    print(file=f)
print(open("out.txt").read().count("\n"))
print(repr("tab\tnewline\nquote'\"backslash\\ é \x00 \u200b"), ascii("é"), str(b"bytes"))
print([1.0, "s", None, (1,), {2}, {}, set(), frozenset({3}), b"b", ...], 3 + 0j, range(2, 9, 3))
written = sys.stdout.write("written\n")
print(written, end="\r\n")
print("progress:", end="")
for i in range(0, 101, 25):
    print(f" {i}%", end="", flush=True)
print()

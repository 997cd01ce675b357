# Show a unified diff of these two versions of a config file, and how similar they are.
import difflib

old = """host = localhost
port = 8080
debug = true
timeout = 30
retries = 3
""".splitlines(keepends=True)
new = """host = example.org
port = 8080
timeout = 45
retries = 3
log = info
""".splitlines(keepends=True)

print("".join(difflib.unified_diff(old, new, "old.conf", "new.conf", n=1)), end="")
ratio = difflib.SequenceMatcher(None, "".join(old), "".join(new)).ratio()
print(f"similarity: {ratio:.4f}")
print(difflib.get_close_matches("appel", ["ape", "apple", "peach", "puppy"]))
for line in difflib.ndiff(["one\n", "two\n"], ["one\n", "too\n"]):
    print(line, end="")
for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, "qabxcd", "abycdf").get_opcodes():
    print(f"{tag:>7} a[{i1}:{i2}] b[{j1}:{j2}]")

# Build a small project tree, print it like `tree`, and count the lines by file extension.
from collections import Counter
from pathlib import Path

root = Path("demo")
files = {
    "README.md": "# Demo\n\nText\n",
    "src/app.py": "import sys\n\nprint(sys.argv)\n",
    "src/lib/math.py": "def add(a, b):\n    return a + b\n",
    "data/rows.csv": "a,b\n1,2\n3,4\n",
}
for name, text in files.items():
    target = root / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def tree(folder: Path, prefix: str = "") -> None:
    entries = sorted(folder.iterdir(), key=lambda p: (p.is_file(), p.name.lower()))
    for i, entry in enumerate(entries):
        last = i == len(entries) - 1
        print(f"{prefix}{'└── ' if last else '├── '}{entry.name}{'/' if entry.is_dir() else ''}")
        if entry.is_dir():
            tree(entry, prefix + ("    " if last else "│   "))


print(f"{root}/")
tree(root)
lines = Counter()
for path in root.rglob("*"):
    if path.is_file():
        lines[path.suffix] += len(path.read_text().splitlines())
print(dict(sorted(lines.items())))
p = root / "src" / "lib" / "math.py"
print(p.stem, p.suffix, p.parent.as_posix(), p.relative_to(root), p.with_suffix(".pyi").name, p.parts)

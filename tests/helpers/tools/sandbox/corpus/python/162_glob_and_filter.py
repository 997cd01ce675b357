# Find files by patterns, with sizes and by modification time, and clean up the temporary ones.
import fnmatch
import glob
import os
from pathlib import Path


def main():
    names = ["a.txt", "b.txt", "data1.csv", "data2.csv", "data10.csv", "sub/c.txt", "sub/deep/d.TXT", "sub/tmp_1.tmp", ".hidden"]
    for i, name in enumerate(names):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (i + 1) * 10)
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + (i * 7) % 9))

    print(sorted(glob.glob("*.txt")), sorted(glob.glob("data?.csv")), sorted(glob.glob("data[0-9]*.csv")))
    print(sorted(glob.glob("**/*.txt", recursive=True)), sorted(glob.glob("*")))
    print(sorted(p.as_posix() for p in Path("sub").rglob("*.t*")))
    print(fnmatch.filter(["x.py", "y.PY", "z.txt"], "*.py"), fnmatch.fnmatchcase("a1", "a[!0]"))
    newest = max(Path().glob("*.csv"), key=lambda p: p.stat().st_mtime)
    print("newest:", newest, int(newest.stat().st_mtime), oct(newest.stat().st_mode & 0o600))
    total = sum(p.stat().st_size for p in Path().rglob("*") if p.is_file())
    print("total bytes:", total)
    with os.scandir("sub") as entries:
        print(sorted((e.name, e.is_dir()) for e in entries))
    for p in Path().rglob("*.tmp"):
        p.unlink()
    Path("a.txt").replace("sub/moved.txt")
    Path("gone.txt").unlink(missing_ok=True)
    print(sorted(p.name for p in Path("sub").iterdir()), Path("a.txt").exists())
    try:
        Path("sub").rmdir()
    except OSError as e:
        print("cannot remove:", type(e).__name__)


if __name__ == "__main__":
    main()

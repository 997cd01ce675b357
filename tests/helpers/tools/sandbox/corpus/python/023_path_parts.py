# Split these paths into folder, name and extension, and normalise them.
import os
import os.path as path

paths = ["docs/guide/../index.md", "./archive.tar.gz", "a//b/./c", ".bashrc", "folder/", "no_extension"]
for p in paths:
    head, tail = path.split(p)
    root, ext = path.splitext(p)
    print(f"{p:<24} dir={head!r} base={tail!r} ext={ext!r} norm={path.normpath(p)!r}")

os.makedirs("project/src/pkg", exist_ok=True)
os.makedirs("project/tests", exist_ok=True)
for name, size in [("project/readme.txt", 10), ("project/src/main.py", 250), ("project/src/pkg/util.py", 75)]:
    with open(name, "w") as f:
        f.write("x" * size)

total = 0
for folder, dirs, files in os.walk("project"):
    dirs.sort()
    for file in sorted(files):
        full = path.join(folder, file)
        total += path.getsize(full)
        print(path.relpath(full, "project"), path.getsize(full))
print("total", total, path.isdir("project"), path.exists("nowhere"), path.commonpath(["a/b/c", "a/b/d"]))
os.rename("project/readme.txt", "project/README.txt")
os.remove("project/src/main.py")
print(sorted(os.listdir("project")), os.listdir("project/src"))

# Copy a folder as a backup, leaving out .tmp files, then move and delete things in it.
import os
import shutil

os.makedirs("work/sub")
for name in ["work/a.txt", "work/b.tmp", "work/sub/c.txt", "work/sub/d.tmp"]:
    with open(name, "w") as f:
        f.write(f"content of {os.path.basename(name)}\n")

shutil.copytree("work", "backup", ignore=shutil.ignore_patterns("*.tmp"))


def listing(folder):
    found = []
    for base, _, files in os.walk(folder):
        found += [os.path.join(base, f).replace(os.sep, "/") for f in files]
    return sorted(found)


print(listing("work"))
print(listing("backup"))
shutil.move("backup/a.txt", "backup/sub/renamed.txt")
shutil.copy("work/b.tmp", "backup")
print(listing("backup"))
shutil.rmtree("work")
print(os.path.exists("work"), open("backup/sub/renamed.txt").read().strip())
try:
    shutil.copy("missing.txt", "backup")
except FileNotFoundError as e:
    print(type(e).__name__, e.errno, e.filename)

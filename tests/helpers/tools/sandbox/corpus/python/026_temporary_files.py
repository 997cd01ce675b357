# Process data by way of a temporary file and folder that are gone afterwards.
import os
import tempfile

with tempfile.TemporaryDirectory(dir=".") as folder:
    names = []
    for i in range(3):
        path = os.path.join(folder, f"part{i}.txt")
        with open(path, "w") as f:
            f.write("\n".join(str(n * n) for n in range(i, i + 4)))
        names.append(path)
    total = 0
    for path in names:
        with open(path) as f:
            numbers = [int(line) for line in f]
        print(os.path.basename(path), numbers, sum(numbers))
        total += sum(numbers)
    existed = os.path.isdir(folder)

print("total", total)
print("existed inside:", existed, "exists after:", os.path.exists(folder))

with tempfile.NamedTemporaryFile("w+", suffix=".log", dir=".", delete=True) as tmp:
    tmp.write("line 1\nline 2\n")
    tmp.flush()
    tmp.seek(0)
    print(tmp.read().split("\n"), tmp.name.endswith(".log"))
print(os.listdir("."))

# Compute weighted grades of students from a file, write a report file, and show it.
from pathlib import Path

Path("grades.txt").write_text("""# name: exam, homework, project
Ann Lee: 91, 85.5, 78
Bob Ray: 62, , 70
Cy Young: 55, 40, 61.25

Di Fox: absent, 90, 88
""")
WEIGHTS = (0.5, 0.2, 0.3)


def letter(score):
    for limit, mark in ((90, "A"), (80, "B"), (70, "C"), (60, "D")):
        if score >= limit:
            return mark
    return "F"


report, scores = [], {}
with open("grades.txt") as f:
    for number, line in enumerate(f, 1):
        if not (line := line.strip()) or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        try:
            marks = [float(m) if m.strip() else 0.0 for m in rest.split(",")]
        except ValueError as e:
            report.append(f"line {number}: {name}: {e}")
            continue
        scores[name] = sum(m * w for m, w in zip(marks, WEIGHTS))
        report.append(f"{name:<10} {scores[name]:6.2f} {letter(scores[name])}")

with open("report.txt", "w") as out:
    out.writelines(f"{line}\n" for line in report)
    print(f"class mean {sum(scores.values()) / len(scores):.3f}", file=out)
print(Path("report.txt").read_text(), end="")
print(max(scores, key=scores.get), Path("report.txt").stat().st_size, sorted(p.name for p in Path().glob("*.txt")))
with open("report.txt", "a+") as f:
    f.write("end\n")
    f.seek(0)
    print(sum(1 for _ in f))
try:
    open("nope/report.txt", "w")
except OSError as e:
    print(type(e).__name__, e.strerror)

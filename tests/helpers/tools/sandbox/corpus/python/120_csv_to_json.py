# Convert this CSV to JSON, guessing the types of the columns, and write both files.
import csv
import json
from pathlib import Path

Path("in.csv").write_text("""id;name;price;in_stock;added;note
1;Lamp;19.90;yes;2024-01-05;
2;"Desk; oak";249;no;2023-12-24;heavy
3;Mug;;yes;;"says ""hi"" twice"
""", encoding="utf-8")


def convert(text):
    if text == "":
        return None
    if text in ("yes", "no"):
        return text == "yes"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


with open("in.csv", newline="", encoding="utf-8") as f:
    dialect = csv.Sniffer().sniff(f.readline(), delimiters=",;")
    f.seek(0)
    reader = csv.DictReader(f, delimiter=dialect.delimiter)
    rows = [{k: convert(v) for k, v in row.items()} for row in reader]

with open("out.json", "w") as f:
    json.dump(rows, f, indent=1)
print(Path("out.json").read_text())
back = json.loads(Path("out.json").read_text())
types = {key: sorted({type(r[key]).__name__ for r in back}) for key in back[0]}
print(dialect.delimiter, types)
prices = [r["price"] for r in back if r["price"] is not None]
print(sum(prices), sum(prices) / len(prices), back == rows)

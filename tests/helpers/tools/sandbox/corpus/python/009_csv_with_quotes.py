# Write a CSV with commas, quotes and line breaks inside of fields, read it back, and check it is the same.
import csv

rows = [
    ["id", "name", "note"],
    ["1", "Smith, John", 'He said "hi"'],
    ["2", "Ünal", "two\nlines"],
    ["3", "", "trailing space "],
]

with open("people.csv", "w", newline="", encoding="utf-8") as f:
    csv.writer(f).writerows(rows)

with open("people.csv", newline="", encoding="utf-8") as f:
    text = f.read()
print(repr(text))

with open("people.csv", newline="", encoding="utf-8") as f:
    back = list(csv.reader(f))
print("same:", back == rows)

with open("people.tsv", "w", newline="", encoding="utf-8") as f:
    writer = csv.DictWriter(f, fieldnames=["name", "id"], delimiter="\t", extrasaction="ignore", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for row in back[1:]:
        writer.writerow(dict(zip(rows[0], row)))

with open("people.tsv", encoding="utf-8") as f:
    for line in f:
        print(line.rstrip())

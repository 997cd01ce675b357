# Validate records; print what is wrong to standard error and exit with code 3 if there are problems.
import sys

records = [
    {"id": 1, "email": "ann@example.org", "age": 31},
    {"id": 2, "email": "bob(at)example.org", "age": 17},
    {"id": 3, "email": "cy@example.org", "age": "old"},
]


def problems(record):
    if "@" not in record["email"]:
        yield f"record {record['id']}: bad email {record['email']!r}"
    if not isinstance(record["age"], int):
        yield f"record {record['id']}: age is {type(record['age']).__name__}"
    elif record["age"] < 18:
        yield f"record {record['id']}: too young ({record['age']})"


found = [p for r in records for p in problems(r)]
for number, problem in enumerate(found, 1):
    print(f"{number}. {problem}", file=sys.stderr)
print(f"{len(records)} records, {len(found)} problems")
try:
    if found:
        sys.exit(len(found))
finally:
    print("cleaning up")

# Collect all validation errors and raise them together as an ExceptionGroup; handle them by kind.
def check(record):
    errors = []
    if not record.get("name"):
        errors.append(ValueError("name is empty"))
    if not isinstance(record.get("age"), int):
        errors.append(TypeError(f"age is {record.get('age')!r}"))
    elif record["age"] < 0:
        errors.append(ValueError("age is negative"))
    if "id" not in record:
        errors.append(KeyError("id"))
    if errors:
        raise ExceptionGroup(f"record {record.get('name') or '?'}", errors)
    return "ok"


for record in [{"id": 1, "name": "ann", "age": 3}, {"name": "", "age": "x"}, {"id": 2, "name": "bob", "age": -1}]:
    try:
        print(check(record))
    except* ValueError as group:
        print("values:", [str(e) for e in group.exceptions])
    except* (TypeError, KeyError) as group:
        print("others:", sorted(type(e).__name__ for e in group.exceptions), group.message)

e = ValueError("wrong")
e.add_note("seen in row 7")
print(e.__notes__, isinstance(ExceptionGroup("g", [e]), Exception))
tree = ExceptionGroup("outer", [e, ExceptionGroup("inner", [OSError(2, "gone"), ValueError("b")])])
matched, rest = tree.split(ValueError)
print(len(matched.exceptions), rest.exceptions[0].exceptions[0].errno, tree.subgroup(KeyError))

# Run these risky steps, go on after each error, and print a short error report with line contents.
import sys
import traceback


def load(name):
    return {"a": "1", "b": "x"}[name]


def convert(name):
    return int(load(name))


def main():
    failures = []
    for name in ("a", "b", "c"):
        try:
            print(f"{name}: {convert(name)}")
        except Exception as e:
            frames = traceback.extract_tb(e.__traceback__)
            failures.append((name, type(e).__name__, [f.name for f in frames], frames[-1].line))
    for name, kind, names, line in failures:
        print(f"{name}: {kind} in {' > '.join(names)}: {line}")
    try:
        convert("b")
    except ValueError:
        kind, value, _ = sys.exc_info()
        print(kind.__name__, value, sep=": ")
        print(traceback.format_exc().strip().splitlines()[-1])
        print(traceback.format_exception_only(kind, value)[0].strip())
        traceback.print_exc()
    print("failures:", len(failures), "| current:", sys.exc_info()[0])


if __name__ == "__main__":
    main()

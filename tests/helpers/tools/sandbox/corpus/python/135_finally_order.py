# Show in which order try, except, else, finally and return run.
log = []


def attempt(action):
    try:
        log.append("try")
        result = action()
    except ZeroDivisionError as e:
        log.append(f"except {e}")
        return "zero"
    except (KeyError, IndexError) as e:
        log.append(f"lookup {type(e).__name__}")
        raise RuntimeError("wrapped") from e
    else:
        log.append("else")
        return result
    finally:
        log.append("finally")

for action in (lambda: 1, lambda: 1 / 0, lambda: {}["x"], lambda: [][0], lambda: int("q")):
    log.clear()
    try:
        outcome = attempt(action)
    except Exception as e:
        outcome = f"{type(e).__name__}({e}) from {type(e.__cause__).__name__}"
    print(f"{' > '.join(log):<40} => {outcome}")


def overrides():
    for i in range(3):
        try:
            if i == 1:
                continue
            if i == 2:
                return f"returned {i}"
        finally:
            log.append(i)

log.clear()
print(overrides(), log)
for n in range(2, 6):
    for d in range(2, n):
        if n % d == 0:
            print(n, "=", d, "*", n // d)
            break
    else:
        print(n, "is prime")
k = 5
while k:
    k -= 2
    if k < 0:
        break
else:
    print("never")
try:
    raise ValueError("a", 2, {"k": 3})
except ValueError as e:
    print(e.args, str(e), repr(e))
print("e" in dir())

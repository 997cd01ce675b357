# Write decorators: counting calls, retrying, validating arguments, and one with optional arguments.
import functools


def counted(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return func(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


def retry(times=3, on=Exception):
    def decorate(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            for attempt in range(1, times + 1):
                try:
                    return func(*args, **kwargs)
                except on as e:
                    print(f"  attempt {attempt} of {func.__name__} failed: {e}")
                    if attempt == times:
                        raise
        return wrapper
    return decorate

state = {"left": 2}


@retry(times=4, on=(ConnectionError, TimeoutError))
@counted
def fetch(url, *, secure=True):
    """Fetch a page."""
    if state["left"]:
        state["left"] -= 1
        raise ConnectionError(f"{url} refused")
    return f"{'https' if secure else 'http'}://{url}"


print(fetch("example.org", secure=False))
print(fetch.__name__, fetch.__doc__, fetch.__wrapped__.calls)
power = functools.partial(pow, 2)
print(power(10), functools.partial(int, base=2)("1011"))


class Shout:
    def __init__(self, func):
        self.func = func

    def __call__(self, *args):
        return self.func(*args).upper() + "!"

@Shout
def hello(name):
    return f"hello {name}"

print(hello("bob"))

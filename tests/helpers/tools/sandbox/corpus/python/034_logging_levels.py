# Set up logging with a format, a child logger and a level per handler, and show what is logged.
import io
import logging

stream = io.StringIO()
handler = logging.StreamHandler(stream)
handler.setFormatter(logging.Formatter("%(levelname)-8s %(name)s:%(funcName)s: %(message)s"))

app = logging.getLogger("app")
app.setLevel(logging.DEBUG)
app.addHandler(handler)
app.propagate = False
db = logging.getLogger("app.db")
db.setLevel(logging.WARNING)


def work():
    app.debug("starting with %d items", 3)
    app.info("rate %.2f%% for %s", 12.345, "eu")
    db.info("not shown")
    db.warning("slow query: %r", "SELECT 1")
    try:
        [][1]
    except IndexError:
        app.exception("lookup failed")


work()
lines = stream.getvalue().splitlines()
print("\n".join(line for line in lines if not line.startswith((" ", "Traceback"))))
print(len(lines) > 5, app.getEffectiveLevel(), db.isEnabledFor(logging.INFO), logging.getLevelName(40))
logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
logging.warning("to standard error")

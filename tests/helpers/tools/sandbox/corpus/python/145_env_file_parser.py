# Parse a .env file with quotes, comments, export and ${VAR} references, then set and read os.environ.
import os
import re
import shlex

ENV = r'''
# database
DB_HOST=localhost
DB_PORT = 5432
export DB_URL="postgres://${DB_HOST}:${DB_PORT}/app"   # trailing
PASSWORD='p@ss#word $DB_HOST'
EMPTY=
MULTI="line1\nline2"
broken line
REF=${MISSING:-fallback}
'''

LINE = re.compile(r"""^\s*(?:export\s+)?([A-Z_]\w*)\s*=\s*(?:"((?:\\.|[^"])*)"|'([^']*)'|([^#]*?))\s*(?:\#.*)?$""", re.X)
values = {}
for number, line in enumerate(ENV.splitlines(), 1):
    if not line.strip() or line.lstrip().startswith("#"):
        continue
    m = LINE.match(line)
    if m is None:
        print(f"line {number} ignored: {line}")
        continue
    name, double, single, bare = m.groups()
    text = single if single is not None else double.replace("\\n", "\n") if double is not None else bare
    if single is None:
        text = re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", lambda r: values.get(r[1], r[2] or ""), text)
    values[name] = text
for k, v in values.items():
    print(f"{k:<9}{v!r}")

os.environ.update(values)
print(os.environ["DB_PORT"], os.getenv("NOPE_NOT_SET"), os.environ.get("EMPTY", "x") == "", os.path.expandvars("at $DB_HOST:${DB_PORT}"))
del os.environ["EMPTY"]
print("EMPTY" in os.environ, shlex.split("cp 'my file' \"b c\" d\\ e"), shlex.join(["echo", "it's", "a b"]), shlex.quote("x;y"))

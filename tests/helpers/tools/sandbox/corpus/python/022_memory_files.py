# Show how to treat strings and bytes as files: read by lines, seek, truncate, and capture output.
import io
from contextlib import redirect_stdout

buffer = io.StringIO("alpha\nbeta\ngamma\n")
print(buffer.readline().strip(), buffer.tell(), buffer.readlines())
buffer.seek(0, io.SEEK_END)
buffer.write("delta\n")
print(len(buffer.getvalue()), buffer.getvalue().splitlines())

raw = io.BytesIO()
raw.write(b"0123456789")
raw.seek(3)
raw.write(b"XYZ")
raw.truncate(8)
print(raw.getvalue(), raw.getbuffer().nbytes)

text = io.TextIOWrapper(io.BytesIO("línea uno\nlínea dos".encode("latin-1")), encoding="latin-1")
for number, line in enumerate(text):
    print(number, line.rstrip())

captured = io.StringIO()
with redirect_stdout(captured):
    print("hidden", end="!")
print("captured:", repr(captured.getvalue()))

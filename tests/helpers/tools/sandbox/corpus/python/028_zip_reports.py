# Put three reports into a ZIP archive, list it, read one member and extract the rest.
import io
import os
import zipfile

with zipfile.ZipFile("reports.zip", "w", compression=zipfile.ZIP_DEFLATED) as z:
    for month in ("jan", "feb", "mar"):
        z.writestr(f"2024/{month}.txt", f"Report for {month}\n" + "row\n" * 50)
    z.writestr("index.txt", "3 reports")

with zipfile.ZipFile("reports.zip") as z:
    print(z.testzip())
    for info in z.infolist():
        print(f"{info.filename:<14} {info.file_size:>5} crc={info.CRC:08x} smaller={info.compress_size < info.file_size}")
    with z.open("2024/feb.txt") as f:
        print(io.TextIOWrapper(f, encoding="utf-8").readline().strip())
    z.extractall("out", members=[n for n in z.namelist() if n.startswith("2024/")])

print(sorted(os.listdir("out/2024")), zipfile.is_zipfile("reports.zip"))
try:
    zipfile.ZipFile(io.BytesIO(b"not a zip"))
except zipfile.BadZipFile as e:
    print("BadZipFile:", e)

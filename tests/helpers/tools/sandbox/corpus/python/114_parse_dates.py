# Parse these dates in different formats, bring them into ISO form, and sort them.
from datetime import datetime

FORMATS = ["%Y-%m-%d", "%d/%m/%Y", "%B %d, %Y", "%d %b %y", "%Y%m%dT%H%M%S", "%a %d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S%z", "%Y-%j"]
texts = ["2024-03-05", "17/11/2023", "July 4, 2021", "9 Feb 68", "20240229T235959", "Mon 01.01.2024 07:30",
         "2022-05-06T10:00:00+0200", "2024-366", "31/02/2024", "yesterday", "9 Feb 69"]


def parse(text):
    for form in FORMATS:
        try:
            return datetime.strptime(text, form), form
        except ValueError:
            continue
    raise ValueError(f"no format fits {text!r}")


found = []
for text in texts:
    try:
        when, form = parse(text)
        found.append(when)
        print(f"{text:<26} {form:<22} {when.isoformat()}")
    except ValueError as e:
        print(f"{text:<26} {e}")
found = sorted(d.replace(tzinfo=None) for d in found)
print(found[0].date(), found[-1].date(), (found[-1] - found[0]).days)
d = datetime(2020, 12, 31)
print(tuple(d.isocalendar()), f"{d:%G-W%V-%u} {d:%y %j %U %A}", datetime.fromisocalendar(2021, 1, 1).date())
try:
    datetime.strptime("2024-13-01", "%Y-%m-%d")
except ValueError as e:
    print(e)

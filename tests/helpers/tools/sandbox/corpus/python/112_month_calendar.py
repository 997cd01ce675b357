# Print calendars of months, find Fridays the 13th, and the last Sunday of each month.
import calendar
from datetime import date, timedelta

print(calendar.month(2024, 2))
cal = calendar.Calendar(firstweekday=6)
for week in cal.monthdayscalendar(2023, 10):
    print(" ".join(f"{d:2}" if d else " ." for d in week))
print([date(y, m, 13).isoformat() for y in (2023, 2024, 2026) for m in range(1, 13) if date(y, m, 13).weekday() == calendar.FRIDAY])
last = [max(w[calendar.SUNDAY] for w in calendar.monthcalendar(2024, m)) for m in range(1, 13)]
print(last)
print(*calendar.monthrange(2024, 2), calendar.isleap(1900), calendar.isleap(2000), calendar.leapdays(2000, 2025))
print(list(calendar.day_abbr), calendar.month_name[12])


def easter(year):
    a, b, c = year % 19, year // 100, year % 100
    d, e = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30, (32 + 2 * (b % 4) + 2 * (c // 4)) % 7
    f = (e - d - c % 4) % 7
    g = (a + 11 * d + 22 * f) // 451
    month, day = divmod(d + f - 7 * g + 114, 31)
    return date(year, month, day + 1)


for year in (2023, 2024, 2025, 2038):
    print(year, easter(year).strftime("%A, %d %B"), (easter(year) + timedelta(days=49)).isoformat())

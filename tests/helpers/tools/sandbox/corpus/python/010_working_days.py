# How many working days are there between two dates, leaving out weekends and these holidays?
from datetime import date, timedelta

start, end = date(2024, 3, 25), date(2024, 4, 12)
holidays = {date(2024, 3, 29), date(2024, 4, 1)}

days = []
current = start
while current <= end:
    if current.weekday() < 5 and current not in holidays:
        days.append(current)
    current += timedelta(days=1)

print("Calendar days:", (end - start).days + 1)
print("Working days:", len(days))
print("First:", days[0].strftime("%a %d %b %Y"), "| Last:", days[-1].isoformat())
for week in sorted({d.isocalendar()[1] for d in days}):
    print(f"week {week}:", ", ".join(d.strftime("%d/%m") for d in days if d.isocalendar().week == week))
print(date(2024, 2, 29).replace(year=2028), date.fromordinal(738000), date.fromisoformat("2024-12-31").timetuple().tm_yday)

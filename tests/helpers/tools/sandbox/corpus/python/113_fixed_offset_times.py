# Convert this meeting's time among offsets from UTC and compare aware datetimes.
from datetime import datetime, time, timedelta, timezone

tokyo = timezone(timedelta(hours=9), "JST")
new_york = timezone(-timedelta(hours=5), "EST")
kolkata = timezone(timedelta(hours=5, minutes=30))

meeting = datetime(2024, 1, 15, 23, 30, tzinfo=timezone.utc)
for zone in (timezone.utc, tokyo, new_york, kolkata):
    local = meeting.astimezone(zone)
    print(f"{local:%Y-%m-%d %H:%M %z} {local.tzname():<10} {local.isoformat()} same={local == meeting}")

print(meeting.timestamp(), datetime.fromtimestamp(0, timezone.utc), datetime.fromtimestamp(1700000000.5, tz=tokyo))
parsed = datetime.fromisoformat("2024-01-16T08:30:00+09:00")
print(parsed == meeting, parsed.utcoffset(), parsed - datetime(2024, 1, 15, tzinfo=timezone.utc))
naive = datetime(2024, 1, 15, 12)
try:
    naive < meeting
except TypeError as e:
    print("TypeError:", e)
print(naive.replace(tzinfo=new_york).astimezone(timezone.utc).time(), datetime.combine(naive.date(), time(7, 5)).ctime())
print(datetime(2024, 1, 1, 0, 0, 0, 123456).isoformat(timespec="milliseconds"), datetime.max.year, time(9, 30).strftime("%I:%M %p"))

# Sum the working time from these clock-in and clock-out times, night shifts included.
from datetime import datetime, timedelta

shifts = [("Mon", "08:55", "17:10", 45), ("Tue", "09:20", "18:02", 30), ("Wed", "22:00", "06:15", 60), ("Thu", "00:00", "23:59", 0)]


def span(start, end):
    a, b = (datetime.strptime(t, "%H:%M") for t in (start, end))
    if b <= a:
        b += timedelta(days=1)
    return b - a


def show(delta):
    minutes = int(delta.total_seconds()) // 60
    sign, minutes = ("-", -minutes) if minutes < 0 else ("", minutes)
    return f"{sign}{minutes // 60}:{minutes % 60:02d}"


total, due = timedelta(), timedelta(hours=8)
for day, start, end, pause in shifts:
    net = span(start, end) - timedelta(minutes=pause)
    total += net
    print(f"{day} {start}-{end} {show(net):>6} {show(net - due):>6}  {net}")
print("total", show(total), total, f"{total / timedelta(hours=1):.4f} h", "pay", round(total.total_seconds() / 3600 * 18.5, 2))
print(-timedelta(minutes=5), timedelta(days=1.5, milliseconds=250), timedelta(hours=25) // timedelta(hours=8), timedelta(hours=25) % timedelta(hours=8))
print(repr(timedelta(weeks=1, seconds=-1)), abs(timedelta(-2)), sum([timedelta(hours=1)] * 3, timedelta()), max(timedelta(1), timedelta(hours=30)))
print(divmod(timedelta(days=10), timedelta(days=3)), timedelta(seconds=90) * 1.5, timedelta(microseconds=1).total_seconds())

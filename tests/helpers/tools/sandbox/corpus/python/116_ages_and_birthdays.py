# How old are these people on a given day, and when is each one's next birthday, 29 February included?
from datetime import date

TODAY = date(2023, 3, 1)
people = {"Ann": date(1990, 3, 1), "Bob": date(1990, 3, 2), "Leap": date(2000, 2, 29), "Kim": date(2022, 12, 31)}


def age(born, today):
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def next_birthday(born, today):
    for year in (today.year, today.year + 1):
        try:
            day = born.replace(year=year)
        except ValueError:
            day = date(year, 3, 1)
        if day >= today:
            return day


for name, born in people.items():
    nxt = next_birthday(born, TODAY)
    print(f"{name:<5} born {born:%d %b %Y}, age {age(born, TODAY):>2}, next {nxt} ({nxt:%a}), in {(nxt - TODAY).days} days")


def add_months(day, n):
    from calendar import monthrange
    year, month = divmod(day.year * 12 + day.month - 1 + n, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


print([add_months(date(2024, 1, 31), n).isoformat() for n in (0, 1, 2, 3, 13, -2)])
print(sorted(people, key=people.get), min(people.values()), date.max - date.min, date(2024, 1, 1) > TODAY)

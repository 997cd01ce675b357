# Plan the reviews of flash cards with the SM-2 algorithm for these answers, and print the calendar.
from datetime import date, timedelta
from collections import defaultdict

START = date(2024, 2, 20)
ANSWERS = {"der Hund": [5, 4, 5, 3], "die Katze": [2, 4, 4], "das Haus": [3, 1, 5, 5, 5]}


def review(card, quality):
    """Return the card after an answer of this quality (0 to 5)."""
    repetitions, interval, easiness = card
    if quality < 3:
        repetitions, interval = 0, 1
    else:
        interval = 1 if repetitions == 0 else 6 if repetitions == 1 else round(interval * easiness)
        repetitions += 1
    easiness = max(1.3, easiness + 0.1 - (5 - quality) * (0.08 + (5 - quality) * 0.02))
    return repetitions, interval, round(easiness, 4)


def main():
    plan = defaultdict(list)
    for word, answers in ANSWERS.items():
        card, day = (0, 0, 2.5), START
        for quality in answers:
            plan[day].append((word, quality))
            card = review(card, quality)
            day += timedelta(days=card[1])
        print(f"{word:<10} repetitions={card[0]} interval={card[1]:>2} easiness={card[2]:.2f} next={day:%a %d %b}")
        plan[day].append((word, None))
    print()
    for day in sorted(plan):
        entries = ", ".join(f"{w}{'' if q is None else f' ({q})'}" for w, q in sorted(plan[day], key=lambda e: e[0]))
        print(f"{day.isoformat()} +{(day - START).days:<3} {entries}")


main()

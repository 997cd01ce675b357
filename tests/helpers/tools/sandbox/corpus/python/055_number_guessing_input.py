# Make a number guessing game with input(); feed it a list of guesses so that we see it run.
import io
import sys

sys.stdin = io.StringIO("50\nabc\n25\n37\n\n31\n34\n")
SECRET = 34


def ask(prompt):
    while True:
        answer = input(prompt)
        try:
            return int(answer)
        except ValueError:
            print(f"\n  {answer!r} is not a number")


low, high, tries = 1, 100, 0
while True:
    guess = ask(f"Guess [{low}-{high}]: ")
    tries += 1
    if guess == SECRET:
        print(f"\nRight after {tries} tries!")
        break
    if guess < SECRET:
        low = max(low, guess + 1)
        print("\n  too low")
    else:
        high = min(high, guess - 1)
        print("\n  too high")

try:
    input("once more? ")
except EOFError as e:
    print("\nEOFError:", e)

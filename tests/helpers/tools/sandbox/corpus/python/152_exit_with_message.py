# Check that the budget is kept, and end with an error message and exit code 1 if it is not.
import atexit
import sys

budget = {"rent": 800, "food": 350.5, "fun": 120}
spent = {"rent": 800, "food": 402.75, "fun": 60}
atexit.register(lambda: print("bye"))

over = {k: spent[k] - budget[k] for k in budget if spent[k] > budget[k]}
for name, amount in budget.items():
    print(f"{name:<6}{amount:>8.2f}{spent[name]:>8.2f}{amount - spent[name]:>+9.2f}")
if over:
    sys.exit("over budget: " + ", ".join(f"{k} by {v:.2f}" for k, v in over.items()))
print("all good")

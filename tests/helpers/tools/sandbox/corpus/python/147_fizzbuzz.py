# Write FizzBuzz up to 30, then a general version with other divisors.
for i in range(1, 31):
    print("Fizz" * (i % 3 == 0) + "Buzz" * (i % 5 == 0) or i, end=" " if i % 10 else "\n")


def fizz(n, rules):
    return "".join(word for d, word in rules.items() if n % d == 0) or str(n)


print(", ".join(fizz(n, {2: "Tik", 3: "Tak", 7: "Boom"}) for n in range(1, 22)))
print(sum(n for n in range(1000) if n % 3 == 0 or n % 5 == 0))

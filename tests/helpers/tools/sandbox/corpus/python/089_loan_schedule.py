# Make the repayment schedule of a loan of 10,000 at 6% a year over 12 months.
def payment(principal, yearly, months):
    rate = yearly / 12
    return principal * rate / (1 - (1 + rate) ** -months)


principal, yearly, months = 10_000.0, 0.06, 12
pay = round(payment(principal, yearly, months), 2)
balance, paid, interest_total = principal, 0.0, 0.0
print(f"Monthly payment: {pay:,.2f}\n")
print(f"{'No':>3} {'Payment':>10} {'Interest':>10} {'Principal':>10} {'Balance':>11}")
for number in range(1, months + 1):
    interest = round(balance * yearly / 12, 2)
    amount = pay if number < months else round(balance + interest, 2)
    balance = round(balance + interest - amount, 2)
    interest_total += interest
    paid += amount
    print(f"{number:>3} {amount:>10,.2f} {interest:>10,.2f} {amount - interest:>10,.2f} {balance:>11,.2f}")
print(f"\nTotal paid {paid:,.2f}, interest {interest_total:,.2f} ({interest_total / principal:.2%})")
years = {m / 12: payment(200_000, 0.0425, m) for m in (120, 240, 360)}
for y, p in years.items():
    print(f"{y:>4.0f} years: {p:,.2f} a month, {p * y * 12 - 200_000:,.0f} interest")

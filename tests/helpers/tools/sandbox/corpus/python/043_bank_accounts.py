# Model bank accounts with inheritance, class methods, super() and errors of their own.
class InsufficientFunds(Exception):
    def __init__(self, need, have):
        super().__init__(f"need {need:.2f}, have {have:.2f}")
        self.short = need - have


class Account:
    count = 0

    def __init__(self, owner, balance=0.0):
        self.owner = owner
        self._balance = balance
        self.history = []
        Account.count += 1

    @classmethod
    def from_string(cls, text):
        owner, _, balance = text.partition(":")
        return cls(owner, float(balance))

    is_valid = staticmethod(lambda amount: amount > 0)

    def withdraw(self, amount):
        if amount > self._balance:
            raise InsufficientFunds(amount, self._balance)
        self._balance -= amount
        self.history.append(("out", amount))

    def __repr__(self):
        return f"{type(self).__name__}({self.owner!r}, {self._balance:.2f})"


class Savings(Account):
    def __init__(self, owner, balance=0.0, rate=0.02):
        super().__init__(owner, balance)
        self.rate = rate

    def accrue(self, years):
        self._balance *= (1 + self.rate) ** years


class Overdraft(Account):
    def withdraw(self, amount):
        try:
            super().withdraw(amount)
        except InsufficientFunds as e:
            if e.short > 100:
                raise
            self._balance -= amount

accounts = [Account.from_string("ann:120.50"), Savings("bob", 1000, rate=0.035), Overdraft("cy", 20)]
accounts[1].accrue(5)
for account in accounts:
    try:
        account.withdraw(110)
    except InsufficientFunds as e:
        print("refused:", e)
    print(account)
print(Account.count, Account.is_valid(-1), [c.__name__ for c in Savings.__mro__], hasattr(accounts[0], "rate"))

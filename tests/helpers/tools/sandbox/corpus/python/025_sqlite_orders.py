# Load customers and orders into SQLite and list each customer's total, with those who bought nothing.
import sqlite3

conn = sqlite3.connect(":memory:")
conn.row_factory = sqlite3.Row
conn.executescript("""
    CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers(id), amount REAL, day TEXT);
""")
conn.executemany("INSERT INTO customers (name) VALUES (?)", [("Ada",), ("Bob",), ("Cyd",)])
conn.executemany(
    "INSERT INTO orders (customer_id, amount, day) VALUES (?, ?, ?)",
    [(1, 20.5, "2024-01-02"), (1, 35.0, "2024-02-11"), (2, 9.99, "2024-02-12"), (1, 4.5, "2024-02-20")],
)
conn.commit()

query = """
    SELECT c.name, COUNT(o.id) AS n, COALESCE(SUM(o.amount), 0) AS total
    FROM customers c LEFT JOIN orders o ON o.customer_id = c.id
    GROUP BY c.id ORDER BY total DESC
"""
for row in conn.execute(query):
    print(f"{row['name']:<5} {row['n']} {row['total']:8.2f}")

for month, total in conn.execute("SELECT substr(day, 1, 7) AS m, SUM(amount) FROM orders GROUP BY m ORDER BY m"):
    print(month, total)

try:
    with conn:
        conn.execute("INSERT INTO customers (name) VALUES ('Dan')")
        conn.execute("INSERT INTO customers (name) VALUES ('Ada')")
except sqlite3.IntegrityError as e:
    print("rolled back:", e)
print(conn.execute("SELECT COUNT(*) FROM customers").fetchone()[0])
conn.close()

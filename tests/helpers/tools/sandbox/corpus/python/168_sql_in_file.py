# Keep a reading list in an SQLite file: tables, joins, window functions, transactions, and export it to CSV.
import csv
import os
import sqlite3


def main():
    with sqlite3.connect("books.db") as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("""CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, year INT, stars REAL CHECK (stars BETWEEN 0 AND 5),
                      author_id INT NOT NULL REFERENCES author(id))""")
        db.executemany("INSERT INTO author VALUES (?, ?)", [(1, "Le Guin"), (2, "Lem"), (3, "Dick")])
        books = [("The Dispossessed", 1974, 4.5, 1), ("Solaris", 1961, 4.2, 2), ("Ubik", 1969, 4.1, 3),
                 ("The Lathe of Heaven", 1971, 4.0, 1), ("Fiasco", 1986, None, 2)]
        db.executemany("INSERT INTO book (title, year, stars, author_id) VALUES (?, ?, ?, ?)", books)
    db.close()

    db = sqlite3.connect("books.db")
    db.create_function("initials", 1, lambda s: "".join(w[0] for w in s.split()))
    query = """SELECT a.name, initials(b.title), b.stars, RANK() OVER (PARTITION BY a.id ORDER BY b.year) AS nth
               FROM book b JOIN author a ON a.id = b.author_id WHERE b.year > :since ORDER BY a.name, nth"""
    for row in db.execute(query, {"since": 1960}):
        print(row)
    print(db.execute("SELECT COUNT(*), COUNT(stars), ROUND(AVG(stars), 3), MIN(year), GROUP_CONCAT(DISTINCT author_id) FROM book").fetchone())
    print(db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i * 3 FROM n WHERE i < 100) SELECT SUM(i), MAX(i) FROM n").fetchone())
    for sql in ("INSERT INTO book (title, stars, author_id) VALUES ('X', 9, 1)", "SELECT nope FROM book", "DROP TABLE missing"):
        try:
            db.execute(sql)
        except sqlite3.Error as e:
            print(type(e).__name__, "-", e)
    cursor = db.execute("UPDATE book SET stars = 3 WHERE stars IS NULL")
    print("updated", cursor.rowcount, db.in_transaction)
    db.rollback()
    cursor = db.execute("SELECT title, year FROM book WHERE title LIKE 'the%' ORDER BY year DESC LIMIT 2")
    print([c[0] for c in cursor.description], cursor.fetchall())
    with open("books.csv", "w", newline="") as f:
        out = csv.writer(f)
        out.writerows(db.execute("SELECT id, title, stars FROM book ORDER BY id"))
    db.close()
    print(open("books.csv").read().splitlines(), sorted(os.listdir()))


if __name__ == "__main__":
    main()

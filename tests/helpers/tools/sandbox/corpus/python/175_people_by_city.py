# Read this CSV, and print the people of each city.
import csv
import io

text = 'nom;ville\nZoë;Århus\n"Müller; Jörg";Köln\nAna;Århus\n'
rows = list(csv.DictReader(io.StringIO(text), delimiter=";"))
for city in sorted({row["ville"] for row in rows}):
    print(city, [row["nom"] for row in rows if row["ville"] == city])

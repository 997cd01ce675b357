# Print the cities in columns, the number of their people on the right.
cities = [("København", 660842), ("Łódź", 648711), ("Zürich", 434335)]
for name, people in sorted(cities, key=lambda city: city[1]):
    print(f"{name:<10}|{people:>9,}|")
print("é".center(5, "·") + "|" + "ñ".rjust(3) + "|" + "ü".ljust(3) + "|")

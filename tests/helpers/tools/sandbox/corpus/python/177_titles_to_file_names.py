# Make file names of these titles, without accents, and count the letters that change.
table = str.maketrans("àâçéèêëîïôùûü", "aaceeeeiiouuu")
for title in ["Être ou ne pas être", "Le garçon à vélo", "Déjà vu"]:
    lower = title.lower()
    plain = lower.translate(table)
    changed = sum(a != b for a, b in zip(lower, plain))
    print("-".join(plain.split()) + ".txt", changed)

# Wrap this text at twenty letters, and show how long each line is.
import textwrap

text = "L'élève étudie à la bibliothèque près de l'église Saint-Rémy."
for line in textwrap.wrap(text, width=20, break_on_hyphens=False):
    print(f"{len(line):2} {line}")

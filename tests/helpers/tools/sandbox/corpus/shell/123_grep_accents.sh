#!/bin/bash
# Find the words with an accent, those that begin with a vowel, and those of four letters.
cat > words <<'END'
école
arbre
père
Été
ouïe
nuit
END
grep -c '[àâéèêëîïôûùç]' words
grep -n '^[aeéiou]' words
grep -i '^é' words
grep -E '^.{4}$' words | paste -sd, -
grep -o . <<< "où" | wc -l

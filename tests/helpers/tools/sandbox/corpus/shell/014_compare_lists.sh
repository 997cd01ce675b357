#!/bin/bash
# Compare two lists: what is in both, what only in one, using process substitution.
printf '%s\n' banana apple cherry date > old.txt
printf '%s\n' cherry elder apple fig > new.txt
echo "both:    $(comm -12 <(sort old.txt) <(sort new.txt) | paste -sd' ')"
echo "removed: $(comm -23 <(sort old.txt) <(sort new.txt) | paste -sd' ')"
echo "added:   $(comm -13 <(sort old.txt) <(sort new.txt) | paste -sd' ')"
diff <(sort old.txt) <(sort new.txt)
echo "diff says $?"
while read -r a && read -r b <&3; do
  echo "$a <-> $b"
done < old.txt 3< new.txt
paste -d, <(cut -c1-3 old.txt) <(tr a-z A-Z < new.txt)

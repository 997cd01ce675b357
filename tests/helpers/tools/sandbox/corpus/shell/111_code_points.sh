#!/bin/bash
# Print the code point of each character, and make characters of code points again.
for character in A é € ñ 日; do
  printf '%s U+%04X\n' "$character" "'$character"
done
printf '\u00e9\u20ac\u65e5\n'
echo $'\u00f1\u00fc'

#!/bin/bash
# Hide all but the first and the last letter of each name.
printf 'Zoë\nBjörk\nÉlodie\n日本太郎\n' > names
sed -E '
  h
  s/^.(.*).$/\1/
  s/./*/g
  G
  s/^(\**)\n(.).*(.)$/\2\1\3/
' names

#!/bin/bash
# Show the first three letters of each word, its last two, and all but the first.
for word in "élève" "Übergröße" "ñandú" "日本語テキスト"; do
  first=${word:0:3}
  last=${word: -2}
  echo "$first | $last | ${word:1}"
done

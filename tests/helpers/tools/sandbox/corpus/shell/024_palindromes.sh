#!/bin/bash
# Which of these words are palindromes? Use rev.
for word in level Radar hello "A man a plan a canal Panama" noon 12321 ab; do
  clean=$(echo "$word" | tr -cd '[:alnum:]' | tr '[:upper:]' '[:lower:]')
  if [ "$clean" = "$(echo "$clean" | rev)" ]; then
    echo "yes: $word"
  else
    echo "no:  $word ($(echo "$word" | rev))"
  fi
done
printf 'file.tar.gz\nplain\n' | rev | cut -d. -f1 | rev
printf 'abc\ndef\n' | rev

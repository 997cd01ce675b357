#!/bin/bash
# Count the lines, the words, the characters and the bytes.
printf 'Où est-il ?\nÀ la gare.\n' > text
for option in l w m c; do
  echo "-$option $(wc -$option < text)"
done

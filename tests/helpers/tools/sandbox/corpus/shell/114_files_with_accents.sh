#!/bin/bash
# Make files with names in several languages, list those of one letter, and rename one.
for name in é ü ab 日本 x; do
  echo "$name" > "$name.txt"
done
for file in ?.txt; do
  echo "$file"
done | LC_ALL=C sort
for file in *é*; do
  mv "$file" "${file/é/e-acute}"
done
find . -regex '\./..\.txt' | LC_ALL=C sort
ls | LC_ALL=C sort

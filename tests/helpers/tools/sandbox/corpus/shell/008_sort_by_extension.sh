#!/bin/bash
# Sort the files into folders by their extension.
touch report.pdf photo.jpg scan.JPG notes.txt script.sh archive.tar.gz README
for file in *; do
  case "$file" in
    *.tar.gz | *.zip) dir=archives ;;
    *.[jJ][pP][gG] | *.png) dir=images ;;
    *.txt | *.pdf) dir=documents ;;
    *.sh) dir=scripts ;;
    *) dir=other ;;
  esac
  mkdir -p "sorted/$dir"
  mv "$file" "sorted/$dir/"
done
find sorted -type f | sort
for d in sorted/*/; do
  name=$(basename "$d")
  echo "$name: $(ls "$d" | wc -l | tr -d ' ') file(s)"
done

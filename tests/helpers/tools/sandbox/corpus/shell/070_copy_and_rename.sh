#!/bin/bash
# Rename many files: lower case, new extension, numbered, with a prefix; keep a backup copy.
mkdir pics && cd pics
touch "IMG 01.JPEG" IMG_02.JPEG Holiday.JPEG keep.png
cp -r . ../backup
i=1
for f in *.JPEG; do
  new=$(echo "${f%.JPEG}" | tr 'A-Z ' 'a-z_')
  mv -- "$f" "$(printf '%02d-%s.jpg' "$i" "$new")"
  i=$((i + 1))
done
LC_ALL=C ls -1
for f in *.jpg; do mv "$f" "trip_$f"; done
find . -type f | sort
cd ..
ls backup | wc -l | tr -d ' '
diff <(ls pics) <(ls backup) > /dev/null || echo "names differ"
mv backup/keep.png backup/kept.png && ls backup/*.png
cp -v backup/kept.png . | tr -d "'"
rm -f backup/*.JPEG && ls backup
rmdir backup 2>/dev/null || echo "backup is not empty"
ln -s pics album && ls album | head -1 && readlink album

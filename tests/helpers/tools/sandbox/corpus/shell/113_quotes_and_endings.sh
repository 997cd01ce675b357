#!/bin/bash
# Take the quotation marks off, replace the accents, and take the file names apart.
line="« Café à l'été »"
line=${line#« }
line=${line% »}
echo "$line"
line=${line//é/e}
echo "${line//[àâ]/a}"
file="déjà-vu.été.txt"
echo "${file%.*} ${file##*.} ${file%%.*}"

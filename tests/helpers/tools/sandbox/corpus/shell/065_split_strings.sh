#!/bin/bash
# Split strings by separators into arrays and variables with read and IFS.
IFS=: read -r user _ uid gid info home shell <<< "ann:x:1000:1000:Ann Example:/home/ann:/bin/zsh"
echo "$user $uid $gid [$info] $home $shell"
IFS=, read -ra parts <<< "red,green,,blue sky"
echo "${#parts[@]}: $(printf '<%s>' "${parts[@]}")"
path="usr:local:bin"
old=$IFS; IFS=:
for p in $path; do echo "part $p"; done
IFS=$old
read -r first rest <<< "one   two  three "
echo "[$first] [$rest]"
IFS='=&' read -r k1 v1 k2 v2 <<< "a=1&b=2"; echo "$k1->$v1 $k2->$v2"
IFS= read -r raw <<< "  keep  blanks  "; echo "[$raw]"
while IFS=$'\t' read -r x y; do echo "$y/$x"; done <<< $'1\t2\n3\t4'
echo "2024-03-15" | { IFS=- read -r y m d; echo "$d/$m/$y"; }
csv='x,"y,z",w'; echo "$csv" | awk -F'"' '{gsub(/,/, ";", $2); print $1 $2 $3}' | tr ',' '\n'

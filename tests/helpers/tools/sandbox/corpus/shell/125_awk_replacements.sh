#!/bin/bash
# Replace the accents, mark the lines with a euro, and split the others at the dots in the middle.
printf 'été 5 €\nhier·demain·lundi\n£3\n' | awk '
{ gsub(/é/, "e") }
/€/ { print "euro:", $0; next }
{ n = split($0, part, "·"); print n, part[n] }'

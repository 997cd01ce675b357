#!/bin/bash
# Write it in capitals with tr, keep the plain letters, and put each word on a line.
echo "déjà vu à São Paulo" | tr 'a-z' 'A-Z'
echo "déjà vu" | tr -cd 'a-z\n'
echo "uno  dos   tres, ¡cuatro!" | tr -d ',!' | tr -s ' ' '\n'
echo "« Oui ! »" | tr -d '[:punct:]' | tr ' ' '_'

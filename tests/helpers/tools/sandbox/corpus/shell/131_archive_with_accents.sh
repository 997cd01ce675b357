#!/bin/bash
# Pack files with accents in their names, list the archive, and unpack it again.
mkdir données
echo "un" > données/été.txt
echo "deux" > données/日本.txt
tar -cf archive.tar données/été.txt données/日本.txt
tar -tf archive.tar
rm -r données
tar -xf archive.tar
cat données/été.txt données/日本.txt

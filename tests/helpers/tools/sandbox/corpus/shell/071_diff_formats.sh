#!/bin/bash
# Show the differences of two files in several formats, with the exit status.
printf 'alpha\nbeta\ngamma\ndelta\n' > a.txt
printf 'alpha\nBETA\ngamma\nepsilon\nzeta\n' > b.txt
diff a.txt b.txt
echo "status $?"
diff -u a.txt b.txt | tail -n +3
diff -q a.txt b.txt
diff -i a.txt b.txt | grep -c '^[<>]'
cp a.txt c.txt; diff a.txt c.txt && echo "same"
diff -s a.txt c.txt
cmp -l a.txt b.txt 2> /dev/null | head -n 2
cmp -s a.txt c.txt && echo "cmp: equal"
diff -y -W 30 --suppress-common-lines a.txt b.txt | wc -l | tr -d ' '
mkdir d1 d2; echo x > d1/f; echo y > d2/f; echo z > d2/only
diff -rq d1 d2
diff --unchanged-line-format= --old-line-format='-%L' --new-line-format='+%L' a.txt b.txt

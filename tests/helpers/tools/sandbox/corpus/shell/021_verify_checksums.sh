#!/bin/bash
# Make a SHA-256 manifest, verify it, tamper with a file and verify again.
mkdir data
for n in one two three; do echo "content of $n" > "data/$n.txt"; done
sha256sum data/*.txt | tee manifest.sha256
sha256sum -c manifest.sha256
echo "tampered" >> data/two.txt
if sha256sum --quiet -c manifest.sha256 2>/dev/null; then
  echo "all good"
else
  echo "verification failed with $?"
fi
sha256sum -c manifest.sha256 2>/dev/null | awk -F': ' '$2 != "OK" {print "bad:", $1}'
printf '' | sha256sum
printf 'abc' | sha1sum | cut -c1-12

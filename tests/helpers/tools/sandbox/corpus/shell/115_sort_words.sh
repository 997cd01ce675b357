#!/bin/bash
# Sort these words, forwards, backwards, and each once.
cat > words.txt <<'END'
zèbre
Äpfel
apple
éclair
Zoo
apple
END
sort words.txt | paste -sd, -
sort -r words.txt | paste -sd, -
sort -u words.txt | paste -sd, -

#!/bin/bash
# Count how often each word occurs in this text, most frequent first.
cat > text.txt <<'EOF'
the quick brown fox jumps over the lazy dog
The dog barks; the fox runs away, and the dog sleeps.
EOF

tr -cs '[:alpha:]' '\n' < text.txt | tr '[:upper:]' '[:lower:]' | sort | uniq -c | sort -k1,1nr -k2 | head -n 5
echo "total words: $(wc -w < text.txt | tr -d ' ')"
echo "unique words: $(tr -cs 'A-Za-z' '\n' < text.txt | tr 'A-Z' 'a-z' | sort -u | grep -c .)"

#!/bin/bash
# Which of these are exactly one character, and which have nothing but letters?
for text in a é ß 日 ab "é!" "naïve" "x1"; do
  case $text in
    ?) size="one character" ;;
    *) size="${#text} characters" ;;
  esac
  if [[ $text =~ ^[[:alpha:]]+$ ]]; then letters="letters only"; else letters="not only letters"; fi
  echo "$text: $size, $letters"
done

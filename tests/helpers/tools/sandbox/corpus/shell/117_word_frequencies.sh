#!/bin/bash
# How often does each word occur?
printf 'thé café thé\nçà café thé\n' | tr ' ' '\n' | sort | uniq -c | awk '{ print $2 "=" $1 }'
printf 'A\na\nÉ\né\nÉ\n' | sort | uniq | paste -sd' ' -
printf 'É\né\nÉ\n' | sort | uniq -d

#!/bin/bash
# Make a work folder that is removed by a trap when the script ends, also when it fails.
cleanup() {
  status=$?
  rm -rf work
  echo "cleanup (status $status)"
}
trap cleanup EXIT
trap 'echo "got SIGUSR1"' USR1

mkdir work
echo data > work/file.txt
cat work/file.txt
kill -USR1 $$
(
  trap 'echo "subshell ends"' EXIT
  echo "in a subshell"
)
ls work
echo "about to fail"
exit 4

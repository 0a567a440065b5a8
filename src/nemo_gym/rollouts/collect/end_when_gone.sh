#!/bin/sh
# end_when_gone.sh SIGNAL SECONDS VARIABLE MARK: waits for the end of its standard input, that is for the process at
# the other end; then asks the programs whose environment has the mark in the variable to end, and after so many
# seconds ends them. A line on its standard input says that nothing is left to do.
read -r _ && exit 0
signal=$1 left=$2
while found=$(grep -alsF "$3=$4" /proc/[0-9]*/environ); [ -n "$found" ]; do
    for file in $found; do
        pid=${file#/proc/}
        kill "-$signal" "${pid%/environ}" 2>/dev/null
    done
    left=$((left - 1))
    [ "$left" -gt 0 ] && signal=0 || signal=KILL
    [ "$left" -gt -5 ] || exit 1
    sleep 1
done

# shellcheck shell=bash
# The numbers, from 0, of those paths that are not there. Values: test (-e, or -f for files alone), paths.
: "${test:?}"
declare -a paths
for n in "${!paths[@]}"; do
  test "$test" "${paths[n]}" || echo "$n"
done
exit 0

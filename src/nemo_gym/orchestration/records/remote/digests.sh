# shellcheck shell=bash
# SHA-256 of the first bytes of files, a line each; `none` for one that is gone or shorter.
# Values: folder, and for each file its path relative to it and how many bytes: paths, counts.
: "${folder:?}"
declare -a paths counts
cd -- "$folder" || exit
for n in "${!paths[@]}"; do
  if [ "$(stat -c %s -- "./${paths[n]}" 2>/dev/null || echo 0)" -ge "${counts[n]}" ]; then
    head -c "${counts[n]}" -- "./${paths[n]}" | sha256sum
  else
    echo none
  fi
done

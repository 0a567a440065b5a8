# shellcheck shell=bash
# What a profile finds on this host: a line each, a word and what is so behind a tab. Values: root (the storage root,
# made where only it is missing), setup (lines of bash), pythons (interpreters), probe (a program of Python that says what it
# has), wanted (its argument, one for each interpreter), programs and files to look for, service (a folder).
: "${root:?}" "${setup=}" "${probe:?}" "${service=}"
declare -a pythons wanted programs files
umask 077
say() { printf '%s\t%s\n' "$1" "$(tr '\n\t' '  ' <<<"$2")"; }

say clock "$(date +%s.%N)"
say user "$(id -u)"
[ -z "$service" ] || say service "$(stat -c %i -- "$service" "$service/.." 2>/dev/null)"
if above=$(dirname -- "$root") && [ ! -e "$above" ]; then
  # it may be mistyped, and the check must not make what would hide that
  say unwritable "there is no folder $above; make it, or correct the path"
elif said=$(mkdir -p -- "$root" 2>&1) && said=$(mktemp "$root/.check.XXXXXX" 2>&1); then
  rm -f -- "$said"
  say root "$(stat -L -c '%u %a' -- "$root")"
  say free "$(df -Pk -- "$root" | awk 'NR == 2 && $2 > 0 { print $4 }')"
else
  say unwritable "$said"
fi
for n in "${!files[@]}"; do
  [ -e "${files[n]}" ] || say missing "${files[n]}"
done
# setup lines may leave, or change what bash does on errors
(
  errors=$(mktemp) || exit
  trap 'rm -f -- "$errors"' EXIT
  eval "$setup" >/dev/null 2>"$errors" || say setup "$(<"$errors")"
  set +eu
  for n in "${!programs[@]}"; do
    command -v "${programs[n]}" >/dev/null || say missing "${programs[n]}"
  done
  for n in "${!pythons[@]}"; do
    said=$(timeout 60 env -u PYTHONHOME -u PYTHONPATH PYTHONNOUSERSITE=1 \
      "${pythons[n]}" -c "$probe" "${wanted[n]}" 2>&1 </dev/null)
    say "python $n $?" "$said"
  done
)
exit 0

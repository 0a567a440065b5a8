# shellcheck shell=bash
# Prints `kept:` and the words with which a program starts; nothing when it never does.
# Values: program, limit (seconds for each attempt), attempts, libraries and user_site (the two words), and what is meant
# for the program: its variables by name, meant, each with a value that is itself (literal) or the name of a variable here
# (variable): values, kinds.
: "${program:?}" "${limit:?}" "${libraries:?}" "${user_site:?}"
declare -a attempts meant values kinds
try() (
  outer=()
  for n in "${!meant[@]}"; do
    if [[ ${kinds[n]} == literal ]]; then outer+=("${values[n]}"); else outer+=("${!values[n]-}"); fi
  done
  for name in $(compgen -e); do
    case $name in PYTHON*) unset -v "$name" ;; esac
  done
  [[ $1 == *"$libraries"* ]] || unset -v LD_LIBRARY_PATH
  [[ $1 == *"$user_site"* ]] || export PYTHONNOUSERSITE=1
  for n in "${!meant[@]}"; do
    export "${meant[n]}=${outer[n]}"
  done
  exec timeout "$limit" "$program" --version </dev/null >/dev/null 2>&1
)
for words in "${attempts[@]}"; do
  if try "$words"; then
    printf 'kept:%s\n' "$words"
    break
  fi
done

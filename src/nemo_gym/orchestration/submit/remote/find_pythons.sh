# shellcheck shell=bash
# Of each Python that is there: its path, its version, the machine's kind and the C library's version, a line each.
# Values: names.
declare -a names
for name in "${names[@]}"; do
  python=$(command -v "$name") || continue
  "$python" -c 'import platform, sys
print(sys.executable, "%d.%d" % sys.version_info[:2], platform.machine(), platform.libc_ver()[1] or "0")' || :
done
exit 0

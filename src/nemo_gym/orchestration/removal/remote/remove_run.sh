# shellcheck shell=bash
# Deletes a run directory. It is renamed first, so that a removal that breaks off is taken up by the next one.
# Of a symbolic link, the folder that it leads to is deleted, and then the link.
# Values: folder (the run directory), doomed (its name while it goes), record (its record's name), id.
# 44: neither name is there. 45: the folder is not that run.
: "${folder:?}" "${doomed:?}" "${record:?}" "${id:?}"
if [ -d "$folder" ]; then
  grep -q -F -- "\"$id\"" "$folder/$record" 2>/dev/null || exit 45
  rm -rf -- "$doomed" || exit 1
  mv -T -- "$folder" "$doomed" || exit 1
fi
[ -e "$doomed" ] || [ -L "$doomed" ] || exit 44
if [ -L "$doomed" ]; then
  real=$(readlink -f -- "$doomed") && rm -rf -- "$real" || exit 1
fi
rm -rf -- "$doomed"

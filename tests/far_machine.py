"""A stand-in for ``ssh``: another machine, which has folders of this one under names that are not here."""

from __future__ import annotations

from pathlib import Path

PROGRAM = """\
#!/bin/bash
# options are those of ssh; the names that only the far machine has are changed in what it is told
echo "$*" >>'{folder}/ssh.log'
[ ! -e '{folder}/unreachable' ] || {{ echo 'ssh: connect to host far: timed out' >&2; exit 255; }}
case " $* " in *' -O '*) exit 0 ;; esac
export PATH='{folder}/far-bin':"$PATH"
LC_ALL=C sed 's|{far}|{near}|g' | bash -s
"""
FAR = "/only-on-the-far-machine"


def stand_in(folder: Path, near: Path, environ: dict[str, str]) -> dict[str, str]:
    """An environment whose ``ssh`` reaches a machine with ``near`` under the name `FAR`."""
    program = folder / "bin" / "ssh"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(folder=folder, far=FAR, near=near))
    program.chmod(0o755)
    return {**environ, "PATH": f"{program.parent}:{environ['PATH']}"}

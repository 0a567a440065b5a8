"""Runs a command on one node of several, with the number of the node in the variables that trainers read.

``python -P rank.py -- COMMAND …``, by ``srun``. Standard library alone, since it runs in images too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The number of this node, and, for a command that is itself the only process of it, its rank."""
    node = environ.get("SLURM_NODEID") or environ.get("SLURM_PROCID") or "0"
    found = {"NODE_RANK": node, "PET_NODE_RANK": node, "GROUP_RANK": node}
    # torchrun gives its workers ranks of their own; a command that is no launcher is one worker a node
    return {**found, "RANK": node, "LOCAL_RANK": "0", "WORLD_SIZE": environ.get("NNODES", "1")}


def main() -> None:
    """Become the command."""
    words = sys.argv[sys.argv.index("--") + 1 :]
    own = variables(os.environ)
    try:
        os.execvpe(words[0], words, {**os.environ, **own})  # noqa: S606 - it becomes the command
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()

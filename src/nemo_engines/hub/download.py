"""``python -m nemo_engines.hub.download OWNER/NAME``: a model of the hub in the user's own cache of it.

Runs in an engine's interpreter. The last line on stdout is a JSON object with its folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch what is not in the cache yet; 1 and a sentence where that fails."""
    [name] = sys.argv[1:] if argv is None else argv
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only an engine's environment has it

    try:
        folder = snapshot_download(name)
    except Exception as error:  # noqa: BLE001 - the library raises many kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        sys.stderr.write(
            f"hf://{name} could not be had from the hub ({reason.rstrip('.')}); name a folder with it\n"
        )
        return 1
    sys.stdout.write(json.dumps({"folder": folder}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

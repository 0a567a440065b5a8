"""``python -m nemo_helix_plugin.cli``: the program `nemo`, where its script is not on the path."""

from __future__ import annotations

from nemo_helix_plugin.cli.main import main

if __name__ == "__main__":
    main()

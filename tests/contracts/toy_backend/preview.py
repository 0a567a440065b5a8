"""The previewer: what would be learned, as JSON on standard output."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .rows import words


def main() -> int:
    """Print the preview of the spec in the current folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--rows", type=int, required=True)
    asked = parser.parse_args()
    spec = json.loads(asked.spec.read_text(encoding="utf-8"))
    found = words(Path(spec["dataset"]))
    total = sum(map(len, found))
    rows = [
        {"line": line, "tokens": len(row), "parts": [{"mark": "learned", "text": " ".join(row)}]}
        for line, row in enumerate(found[: asked.rows], 1)
    ]
    counts = {"file": "rows", "rows": len(found), "tokens": total, "tokens_learned": total, "tokens_cut": 0}
    shown = {"engine": spec["engine"], "method": spec["method"], "max_seq_length": 99, "rows": rows}
    print(json.dumps({**shown, "training": {**counts, "shortened_lines": [], "left_out_lines": []}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

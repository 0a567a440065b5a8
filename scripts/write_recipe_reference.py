"""Write docs/reference/recipes.md from the recipes that ship.

`page` is compared by a test.
"""

from __future__ import annotations

from pathlib import Path

from nemo_helix_plugin.customization import recipes

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "recipes.md"

HEAD = """# Recipes

A recipe is a spec that ships, in [fields of one set of names](customization.md#one-set-of-names).
This page is written from their files (`make reference`).

```sh
nemo customization recipes list --method sft
nemo customization recipes show first-training > mine.yaml
nemo customization sft --spec mine.yaml --print-spec --backend automodel
nemo customization recipes run first-training --backend automodel --print-spec
```

`run` takes all options of `nemo customization sft`, `dpo` or `grpo` behind the name, and they win over the
recipe: `--model`, `--data`, `--dry-run`, `--wait`.
Each is compiled for a GPU by a test; `first-training` is trained by one, with a smaller model.
The other models were not trained here, and none on a GPU: `--dry-run` says what one takes on your machine.

| Recipe | For | Model | What it does |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    found = recipes.all_recipes()
    lines = [HEAD.rstrip("\n")]
    lines += [
        f"| [`{one.name}`](#{one.name.replace('.', '')}) | {one.method} "
        f"| `{one.spec['model']}` | {one.title} |"
        for one in found
    ]
    for one in found:
        lines += ["", f"## {one.name}", "", f"{one.title}.", ""]
        lines += [one.notes, ""] if one.notes else []
        body = [line for line in one.text.splitlines() if not line.startswith("#")]
        lines += ["| Field | Value |", "| --- | --- |"]
        lines += [f"| `{key}` | `{value}` |" for key, _, value in (line.partition(": ") for line in body)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

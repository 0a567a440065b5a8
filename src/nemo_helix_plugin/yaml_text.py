"""YAML that people write, by the rules of YAML 1.2: `1e-4` is a number; `no`, `007` and dates are text.

A key that a mapping has twice is refused.
"""

from __future__ import annotations

from typing import Any

import yaml

from nemo_runs.yaml_scalars import give_rules, refuse_repeated_keys


class _Loader(yaml.SafeLoader):
    """Plain scalars as in YAML 1.2."""


give_rules(_Loader)
refuse_repeated_keys(_Loader, yaml.MarkedYAMLError)


def load(text: str) -> Any:
    """The one document of a text; raises ``yaml.YAMLError``."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a child of the safe loader


def dump(value: Any, *, width: int = 80) -> str:
    """YAML text that `load` and older readers take for the same values, in the same order."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width)
    if load(text) != value:  # rare separators survive only as escapes
        text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=width)
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes what either kind of reader would take for something else than text."""


_Dumper.yaml_implicit_resolvers = {
    first: [
        *yaml.SafeDumper.yaml_implicit_resolvers.get(first, []),
        *_Loader.yaml_implicit_resolvers.get(first, []),
    ]
    for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *_Loader.yaml_implicit_resolvers}
}

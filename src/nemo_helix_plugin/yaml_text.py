"""YAML that people write, read by the rules of YAML 1.2: `1e-4` is a number; `no`, `007` and dates are text.

The rules are those of ``nemo_runs.yaml_scalars``, which this package cannot import; a test compares both.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float"))
_REPLACED = {_BOOL, _INT, _FLOAT, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}


class _Loader(yaml.SafeLoader):
    """Plain scalars as in YAML 1.2."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag not in _REPLACED]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _INT, re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|0|[1-9][0-9]*)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+"
        r"|\.[0-9]+(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver(_BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_constructor(
    _FLOAT, lambda _loader, node: float(node.value.lower().replace(".inf", "inf").replace(".nan", "nan"))
)


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

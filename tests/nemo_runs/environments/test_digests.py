"""Digests of software, with and without our own sources."""

from __future__ import annotations

import pytest

from nemo_runs.environments.digests import same_software, with_sources


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("sha256:1", "sha256:1", True),
        ("sha256:1", "sha256:2", False),
        ("sha256:1", with_sources("sha256:1", "c1"), True),
        ("sha256:2", with_sources("sha256:1", "c1"), False),
        (with_sources("sha256:1", "c1"), with_sources("sha256:1", "c1"), True),
        (with_sources("sha256:1", "c1"), with_sources("sha256:1", "c2"), False),
    ],
)
def test_sources_count_where_both_name_them(one: str, other: str, same: bool) -> None:
    assert same_software(one, other) is same
    assert same_software(other, one) is same

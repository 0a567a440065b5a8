"""The manifest: what the rows belong to, read back as it was written, never half of it."""

from __future__ import annotations

import json

import pytest

from nemo_gym.errors import DataError
from nemo_gym.rollouts.output.manifest import OutputManifest, load_manifest

MANIFEST = OutputManifest(
    run_id="0" * 32,
    created_at="2027-01-15T08:00:00.000Z",
    gym_version="0.1.0",
    gym_commit=None,
    generation={"benchmark": {"name": "b"}, "model": {"name": "m"}},
    scoring={"benchmark": {"verifier": {"type": "match"}}},
    model={"name": "m", "server_version": None},
    num_tasks=3,
    num_repeats=2,
    materialized={"sha256": "ab", "size": 5, "rows": 6, "mtime_ns": 1},
    unsafe_resumes=[{"at": "2027-01-15T08:00:00.000Z", "differences": ["a: 1 → 2"], "recorded": 1}],
    links=[{"claim": 1}],
)


def test_a_manifest_reads_back_as_it_was_written(tmp_path) -> None:
    path = tmp_path / "rollouts_manifest.json"
    MANIFEST.save(path)
    assert load_manifest(path) == MANIFEST
    assert load_manifest(tmp_path / "none.json") is None


def test_the_file_spells_out_digests_and_counts_for_other_programs(tmp_path) -> None:
    path = tmp_path / "rollouts_manifest.json"
    MANIFEST.save(path)
    found = json.loads(path.read_text())
    assert list(found) == [
        "schema_version",
        "run_id",
        "created_at",
        "gym_version",
        "gym_commit",
        "generation_digest",
        "scoring_digest",
        "num_tasks",
        "num_repeats",
        "expected",
        "identity",
        "model",
        "materialized",
        "unsafe_resumes",
        "links",
    ]
    assert found["generation_digest"] == MANIFEST.identity.generation_digest
    assert found["scoring_digest"] == MANIFEST.identity.scoring_digest
    assert found["expected"] == 6


def test_a_later_gym_may_add_keys(tmp_path) -> None:
    path = tmp_path / "rollouts_manifest.json"
    path.write_text(json.dumps({**MANIFEST.to_json(), "later": 1}))
    assert load_manifest(path) == MANIFEST


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not a manifest"),
        ("[]", "not a manifest"),
        ('{"schema_version": 2}', "written in schema 2, this gym reads 1"),
        ('{"schema_version": 1}', "not a whole manifest"),
        ("[" * 99_999, "not a manifest"),
        (json.dumps({**MANIFEST.to_json(), "links": None}), "not a whole manifest"),
        (json.dumps({**MANIFEST.to_json(), "num_tasks": "x", "materialized": 1}), "not a whole manifest"),
    ],
)
def test_a_damaged_manifest_is_an_error_that_names_the_file(tmp_path, content: str, said: str) -> None:
    path = tmp_path / "rollouts_manifest.json"
    path.write_text(content)
    with pytest.raises(DataError, match=said) as caught:
        load_manifest(path)
    assert str(path) in str(caught.value)

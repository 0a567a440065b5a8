"""A submit file in parts, as users of Hydra write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.composition import parse_overrides
from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config import fragments
from nemo_gym.orchestration.config.resolve import resolve


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "submit.yaml"


def load(folder: Path, **files: str) -> dict[str, object]:
    return fragments.load(write(folder, **files)).content


def test_a_file_without_parts_is_itself(tmp_path: Path) -> None:
    path = write(tmp_path, submit="job: {output_path: runs}\n")
    assert fragments.load(path) == ({"job": {"output_path": "runs"}}, (path,))


def test_the_files_own_keys_win_and_later_parts_win_over_earlier_ones(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        submit="defaults: [one, two]\nc: {own: 1}\n",
        one="a: 1\nb: 1\nc: {own: 0, one: 1}\n",
        two="b: 2\n",
    )
    assert found == {"a": 1, "b": 2, "c": {"own": 1, "one": 1}}


def test_self_is_the_place_of_the_files_own_keys(tmp_path: Path) -> None:
    found = load(tmp_path, submit="defaults: [_self_, one]\na: own\n", one="a: part\n")
    assert found == {"a": "part"}


def test_a_part_of_a_folder_is_put_below_the_folders_key(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        submit="defaults:\n  - compute: lab\n  - job: null\ncompute: {lab: {walltime: '1:00:00'}}\n",
        compute__lab="lab: {type: slurm, account: me}\n",
    )
    assert found == {"compute": {"lab": {"type": "slurm", "account": "me", "walltime": "1:00:00"}}}


def test_a_part_may_have_parts_and_every_file_is_named_once(tmp_path: Path) -> None:
    path = write(tmp_path, submit="defaults: [one, two]\n", one="defaults: [two]\na: 1\n", two="b: 2\n")
    found = fragments.load(path)
    assert found.content == {"b": 2, "a": 1}
    assert [one.name for one in found.files] == ["two.yaml", "one.yaml", "submit.yaml"]


def test_a_part_may_end_in_yml(tmp_path: Path) -> None:
    (tmp_path / "one.yml").write_text("a: 1\n")
    assert load(tmp_path, submit="defaults: [one]\n") == {"a": 1}
    assert load(tmp_path, submit="defaults: [one.yml]\n") == {"a": 1}


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ("cluster", "defaults must be a list of names"),
        ("[3]", "defaults: 3 is not understood; write NAME, or KEY: NAME"),
        ("[{a: b, c: d}]", "is not understood"),
        ("[{override hydra/launcher: slurm}]", "override hydra/launcher: slurm is not understood"),
        ("[{compute: [a, b]}]", "with the name of one file"),
        ("[clustr]", r"defaults: clustr: there is no .*clustr\.yaml.*did you mean 'cluster'"),
        ("[{compute: lab}]", r"compute: lab: there is no .*compute/lab\.yaml"),
        ("[submit]", "a file is a part of itself: .* → "),
    ],
)
def test_what_is_not_understood_or_not_there_is_said_in_one_sentence(
    tmp_path: Path, listed: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load(tmp_path, submit=f"defaults: {listed}\n", cluster="a: 1\n")
    assert "\n" not in str(caught.value)


PARTS = {
    "submit": (
        "defaults: [cluster, _self_]\ndriver: {benchmarks: {sums: {run: {config_paths: [s.yaml]}}}}\n"
    ),
    "cluster": (
        "services: {m: {type: command, command: 'serve {port}', model_name: m}}\n"
        "compute: {here: {type: local}}\ndriver: {policy_model: m}\njob: {output_path: runs}\n"
    ),
}


def test_a_config_in_parts_is_resolved_as_one_and_says_nothing_of_its_parts(tmp_path: Path) -> None:
    path = write(tmp_path, **PARTS)
    found = resolve(path, parse_overrides(["compute.here.max_parallel=2"]), cwd=tmp_path)
    assert found.config.compute["here"].max_parallel == 2
    assert "defaults" not in found.plain
    assert found.plain["driver"]["policy_model"] == "m"


def test_an_error_in_a_part_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, **{**PARTS, "cluster": PARTS["cluster"].replace("policy_model", "policy_modl")})
    with pytest.raises(ConfigError, match=r"policy_modl.*policy_model"):
        resolve(path, cwd=tmp_path)

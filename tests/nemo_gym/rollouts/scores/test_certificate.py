"""What keeps an output from being certified, each kind by itself."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import result_rows

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output import inputs
from nemo_gym.rollouts.scores import certificate
from nemo_gym.rollouts.scores.certificate import certify

TASKS, REPEATS = 5, 3


def output(folder: Path, tasks: int = TASKS) -> RolloutPaths:
    everything = {(task, repeat): result_rows.result() for task in range(tasks) for repeat in range(REPEATS)}
    paths = result_rows.write_output(folder / "out", everything, tasks=tasks, repeats=REPEATS)
    config = result_rows.run_config(
        result_rows.benchmark_config(folder),
        "policy_model_name=m",
        "policy_base_url=http://x/v1",
        "output_jsonl_fpath=o.jsonl",
    )
    manifest = result_rows.write_manifest(paths, config, tasks=tasks, repeats=REPEATS)
    rows = paths.materialized_inputs.read_bytes().splitlines()
    manifest.materialized.update(
        inputs.write_inputs(
            paths.materialized_inputs, rows, expected=len(rows), sha256=None, beat=lambda: None
        )
    )
    manifest.save(paths.manifest)
    return paths


def test_a_whole_output_is_certified(tmp_path: Path):
    found = certify(output(tmp_path))
    assert found.problems == []
    assert (found.valid, found.expected, found.present, found.missing) == (True, 15, 15, 0)


def first_row_gone(paths: RolloutPaths) -> None:
    paths.output.write_bytes(b"".join(paths.output.read_bytes().splitlines(keepends=True)[1:]))


def row_doubled(paths: RolloutPaths) -> None:
    paths.output.write_bytes(paths.output.read_bytes() + paths.output.read_bytes().splitlines(True)[3])


def newline_lost(paths: RolloutPaths) -> None:
    paths.output.write_bytes(paths.output.read_bytes()[:-1])


def one_bit(paths: RolloutPaths) -> None:
    data = bytearray(paths.output.read_bytes())
    data[200] ^= 1
    paths.output.write_bytes(data)


def stranger(paths: RolloutPaths) -> None:
    line = b'{"_ng_task_index":99,"_ng_rollout_index":0}\n'
    paths.output.write_bytes(paths.output.read_bytes() + line)


def torn(paths: RolloutPaths) -> None:
    paths.output.write_bytes(paths.output.read_bytes()[:-9])


def reframe(paths: RolloutPaths, old: bytes, new: bytes) -> None:
    paths.output.write_bytes(paths.output.read_bytes().replace(old, new))


def zeros(paths: RolloutPaths) -> None:
    paths.output.write_bytes(paths.output.read_bytes() + bytes(4096) + b"\n")


def input_changed(paths: RolloutPaths) -> None:
    paths.materialized_inputs.write_bytes(paths.materialized_inputs.read_bytes().replace(b"4 + 0", b"5 + 0"))


def manifest_changed(paths: RolloutPaths) -> None:
    found = json.loads(paths.manifest.read_text())
    found["identity"]["generation"]["policy_model_name"] = "another"
    paths.manifest.write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("damage", "said", "count"),
    [
        (first_row_gone, "1 of 15 rollouts have no result: task 0 repeat 0", {"missing": 1}),
        (row_doubled, "1 of rollouts that have a result already in line 16", {"duplicates": 1, "missing": 0}),
        (torn, "behind its last newline", {"missing": 1, "present": 14}),
        (one_bit, "1 damaged in line 1", {"damaged": 1, "missing": 1}),
        (stranger, "1 of rollouts that nobody planned in line 16", {"strays": 1, "missing": 0}),
        (input_changed, "its sha256 is", {"missing": 0}),
        (manifest_changed, "its generation_digest is", {"missing": 0}),
        (lambda paths: paths.output.unlink(), "is not there: no rollout has a result", {"missing": 15}),
        (lambda paths: paths.materialized_inputs.unlink(), "the manifest describes it", {"missing": 0}),
        (lambda paths: paths.manifest.unlink(), "so what is expected is not known", {"expected": None}),
        (lambda paths: paths.manifest.write_text("{"), "not a manifest", {"expected": None}),
    ],
)
def test_each_kind_of_damage_is_named_and_counted(
    tmp_path: Path, damage: Callable[[RolloutPaths], None], said: str, count: dict[str, int]
):
    paths = output(tmp_path)
    damage(paths)
    found = certify(paths)
    assert not found.valid
    assert any(said in problem for problem in found.problems), found.problems
    assert {key: getattr(found, key) for key in count} == count


@pytest.mark.parametrize("framing", [newline_lost, zeros, lambda paths: reframe(paths, b"\n", b"\r\n")])
def test_framing_is_no_damage_and_is_noted(tmp_path: Path, framing: Callable[[RolloutPaths], None]):
    paths = output(tmp_path)
    framing(paths)
    found = certify(paths)
    assert found.valid
    assert found.present == 15
    assert ("in another framing" in " ".join(found.notes)) == (framing is not newline_lost)


def test_a_manifest_that_plans_more_than_can_be_is_not_believed(tmp_path: Path):
    paths = output(tmp_path)
    found = json.loads(paths.manifest.read_text())
    paths.manifest.write_text(json.dumps({**found, "num_tasks": 10**15}))
    assert "cannot be" in certify(paths).problems[0]


def test_a_resume_that_was_allowed_although_something_differed_is_noted(tmp_path: Path):
    paths = output(tmp_path)
    found = json.loads(paths.manifest.read_text())
    found["unsafe_resumes"] = [{"at": "2027-01-15", "differences": ["limit: 1 → 2"], "recorded": 4}]
    paths.manifest.write_text(json.dumps(found))
    certified = certify(paths)
    assert certified.valid
    assert "limit: 1 → 2" in certified.notes[0]


def test_rows_that_are_written_while_they_are_read_are_not_certified(tmp_path: Path, monkeypatch):
    paths = output(tmp_path)
    whole = certificate._Count.take

    def taken_over(self: certificate._Count, line: bytes | None) -> None:
        whole(self, line)
        if self.present == 3:
            os_copy = paths.output.with_name("copy")
            os_copy.write_bytes(paths.output.read_bytes())
            os_copy.replace(paths.output)

    monkeypatch.setattr(certificate._Count, "take", taken_over)
    assert any("while it was read" in problem for problem in certify(paths).problems)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file_nor_with_one_endless_line(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(certificate, "LONGEST_ROW", 1 << 20)
    paths = output(tmp_path)
    with paths.output.open("ab") as file:
        for _ in range(30):
            file.write(bytes(1 << 20))
        file.write(b"\n")
        file.write(b"{}\n" * 200_000)
    tracemalloc.start()
    found = certify(paths)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.present, found.damaged) == (15, 200_001)
    assert peak < 25_000_000

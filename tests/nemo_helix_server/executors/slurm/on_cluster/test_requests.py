"""What the part on the cluster's host answers."""

import json

from tests.small_disk import fill, small_disk

from nemo_helix_server.executors.slurm.on_cluster import folders, looking
from nemo_helix_server.executors.slurm.on_cluster.looking import WINDOW, grown
from nemo_helix_server.executors.slurm.on_cluster.requests import answer
from nemo_helix_server.executors.slurm.on_cluster.wire import digest, raw
from nemo_helix_server.storage import run_files
from nemo_runs.processes import trees


def have(data):
    return [len(data), digest(data[-WINDOW:])]


def test_a_file_that_grew_is_sent_from_where_the_asker_is(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"one\ntwo\nthree\n")
    assert grown(path, have(b"one\n"), path.parent) == {"from": 4, "data": "two\nthree\n", "size": 14}
    assert grown(path, have(b"one\ntwo\nthree\n"), path.parent) == {"from": 14, "data": "", "size": 14}


def test_a_file_that_was_written_anew_is_sent_from_its_beginning(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"uno\ndos\ntres\n")
    assert grown(path, have(b"one\n"), path.parent)["from"] == 0
    path.write_bytes(b"o")
    assert grown(path, have(b"one\n"), path.parent)["from"] == 0
    path.unlink()
    assert grown(path, have(b"one\n"), path.parent) is None


def test_bytes_that_are_no_text_arrive_as_they_are(tmp_path):
    path = tmp_path / "x"
    data = bytes(range(256)) * 3
    path.write_bytes(data)
    sent = json.loads(json.dumps(grown(path, None, path.parent)))
    assert raw(sent["data"]) == data


def test_a_part_of_a_log_that_was_put_aside_is_finished_first(tmp_path):
    (tmp_path / "output.1.jsonl").write_bytes(b"aaaa\nbbbb\n")
    (tmp_path / "output.jsonl").write_bytes(b"cccc\n")
    pieces = list(looking._log(tmp_path, have(b"aaaa\n")))
    assert [(piece["name"], piece["from"], piece["data"]) for piece in pieces] == [
        ("output.1.jsonl", 5, "bbbb\n"),
        ("output.jsonl", 0, "cccc\n"),
    ]


def test_a_run_that_is_given_up_can_never_be_claimed(tmp_path):
    asked = {"op": "give_up", "run": str(tmp_path / "runs" / "task-1")}
    (tmp_path / "runs" / "task-1").mkdir(parents=True)
    (tmp_path / "runs" / "task-1" / "secrets.json").write_text("{}")
    assert answer(asked) == {"mine": True}
    assert answer(asked) == {"mine": False}
    assert run_files.read_claim(tmp_path / "runs" / "task-1").identity is None
    assert not (tmp_path / "runs" / "task-1" / "secrets.json").exists()


def test_a_chain_is_ended_and_a_run_that_has_begun_is_asked_about_though_the_disk_is_full(tmp_path):
    with small_disk(tmp_path / "small", megabytes=1) as small:
        first = small / f"task-{1:032x}"
        for run in (first, small / run_files.next_token(first.name)):
            run.mkdir()
            (run / folders.ORDER).write_text("{}")
        assert run_files.make_claim(first, run_files.RunClaim(trees.identify(), 1.0))
        fill(small)
        assert answer({"op": "give_up", "run": str(first)}) == {"mine": False}
        (after,) = answer({"op": "end_chain", "run": str(first)})["starts"]
        assert (after["free"], after["over"]) == (True, False)
        refused = answer({"op": "give_up", "run": str(small / run_files.next_token(first.name))})
        assert refused["full"] is True


def test_nothing_outside_the_folder_of_jobs_is_removed(tmp_path):
    (tmp_path / "root" / "jobs" / "j" / "storage").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    for path in (tmp_path / "mine", tmp_path / "root" / "jobs" / ".." / ".." / "mine", tmp_path / "root"):
        assert "error" in answer({"op": "remove", "root": str(tmp_path / "root"), "paths": [str(path)]})
    assert (tmp_path / "mine").is_dir()
    inside = tmp_path / "root" / "jobs" / "j" / "storage"
    assert (
        answer({"op": "remove", "root": str(tmp_path / "root"), "paths": [str(inside)], "unused_seconds": 0})
        == {}
    )
    assert not inside.exists()


def test_what_cannot_be_done_is_an_answer_and_no_traceback(tmp_path):
    (tmp_path / "file").write_text("")
    assert (
        "NotADirectoryError" in answer({"op": "prepare", "folders": [str(tmp_path / "file" / "x")]})["error"]
    )


def test_a_file_has_its_name_only_with_the_right_digest(tmp_path):
    asked, where = ["a/b.bin", 3, "0" * 64], {"folder": str(tmp_path), "cache": str(tmp_path / "cache")}
    assert answer({"op": "missing", "files": [[*asked, False]], **where}) == {"missing": [["a/b.bin", 0]]}
    (tmp_path / "a" / folders.part_name("b.bin", "0" * 64)).write_bytes(b"xyz")
    assert answer({"op": "settle", "files": [[*asked, 0o600, False]], **where}) == {}
    assert not (tmp_path / "a" / "b.bin").exists()


def test_a_folder_is_removed_though_a_process_that_lives_on_writes_into_it(tmp_path):
    jobs = tmp_path / "jobs"
    storage = jobs / "j" / "storage"
    storage.mkdir(parents=True)
    (jobs / ".removed-old-1234").mkdir()  # a removal that broke off
    with (storage / "metrics.jsonl").open("a") as zombie:
        assert answer({"op": "remove", "root": str(tmp_path), "paths": [str(storage.parent)]}) == {}
        zombie.write("row\n")
    assert list(jobs.iterdir()) == []


def test_what_runs_leave_that_are_over_is_removed_by_one_request(tmp_path):
    runs = [tmp_path / "runs" / name for name in ("task-1", "task-2")]
    for run in runs:
        run.mkdir(parents=True)
        (run / "secrets.json").write_text("{}")
        (tmp_path / "scratch" / run.name).mkdir(parents=True)
    assert answer({"op": "tidy", "runs": [str(run) for run in runs]}) == {}
    assert not list((tmp_path / "scratch").iterdir())
    assert not list(tmp_path.rglob("secrets.json"))


def test_a_start_is_told_its_number_and_whether_a_job_may_have_it_already(tmp_path):
    run, first = tmp_path / "runs" / "task-2", tmp_path / "runs" / "task-1"
    first.mkdir(parents=True)
    (first / "order.json").write_text('{"start": 5}')
    asked = {"op": "prepare", "folders": [str(run)], "run": str(run)}
    found = answer(asked)
    assert (found["start"], found["begun"], found["queued"]) == (6, False, None)
    (run / "order.json").write_text('{"start": 6}')
    assert (answer(asked)["start"], answer(asked)["begun"]) == (6, True)
    (run / "queued.json").write_text('{"job_id": "17"}')
    assert answer(asked)["queued"] == "17"
    (run / "node.json").write_text('{"job_id": "18"}')  # it runs: this is its job, whatever was heard of it
    assert answer(asked)["queued"] == "18"

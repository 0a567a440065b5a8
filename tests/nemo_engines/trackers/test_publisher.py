"""The publisher's program: what it answers when a library fails, and that it ends with its service."""

import json
import subprocess
import sys

from nemo_engines.trackers import publisher


def test_what_a_library_says_is_told_without_keys_and_passwords(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "a-canary-key")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "a-canary-word")
    error = ValueError(
        "401 from https://user:a-canary-word@host.example/api\n  with a-canary-key, //me:else@other"
    )
    told = publisher._sentence(error)
    assert "canary" not in told
    assert "else" not in told
    assert told.startswith("ValueError: 401 from https://***@host.example/api with ***")


def test_an_error_is_an_answer_and_the_end_of_input_is_the_end(tmp_path):
    argv = [sys.executable, "-m", "nemo_engines.trackers.publisher"]
    requests = [
        {"op": "log", "job": "j", "rows": [], "at": 1},
        {"op": "open", "tracker": "nonesuch", "job": "j", "folder": str(tmp_path)},
    ]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=True, timeout=60)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(answer) for answer in answers] == [["error"], ["error"]]


def test_what_libraries_print_is_no_answer(tmp_path):
    program = (
        "from nemo_engines.trackers import publisher\n"
        "def loud(opening): print('hello'); raise ValueError('no')\n"
        "publisher._KINDS['loud'] = loud\n"
        "publisher.main()\n"
    )
    request = {"op": "open", "tracker": "loud", "job": "j", "folder": str(tmp_path), "run_id": None}
    request |= {"project": "", "name": "", "notes": None, "entity": None, "labels": [], "tags": {}}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == {"error": "ValueError: no"}

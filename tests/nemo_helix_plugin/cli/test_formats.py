"""The same list and entity in every format, as whole outputs."""

import json
import re
import subprocess
import sys

import pytest
import yaml

NAMES = ["unsloth-0000000000aa", "automodel-a1b2c3d4e5f6", "rl-ffffffffffff", "done-1"]

CSV = """\
name,description,status,created_at
unsloth-0000000000aa,,active,2026-11-01T10:00:00.250000Z
automodel-a1b2c3d4e5f6,,paused,2026-11-01T10:00:00.250000Z
rl-ffffffffffff,,error,2026-11-01T10:00:00.250000Z
done-1,base | first,completed,2026-11-01T10:00:00.250000Z
"""
MARKDOWN = """\
| name | description | status | created_at |
| --- | --- | --- | --- |
| unsloth-0000000000aa |  | active | 2026-11-01T10:00:00.250000Z |
| automodel-a1b2c3d4e5f6 |  | paused | 2026-11-01T10:00:00.250000Z |
| rl-ffffffffffff |  | error | 2026-11-01T10:00:00.250000Z |
| done-1 | base \\| first | completed | 2026-11-01T10:00:00.250000Z |
"""
TABLE = """\
name                    description   status     created at            note
unsloth-0000000000aa                  active     2026-11-01T10:00:00Z  step 40 of 100 (40%)
automodel-a1b2c3d4e5f6                paused     2026-11-01T10:00:00Z  kept # d more, step 40 of 100 (40%)
rl-ffffffffffff                       error      2026-11-01T10:00:00Z  CUDA ran out of memory
done-1                  base | first  completed  2026-11-01T10:00:00Z
"""
CODE = """\
from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.jobs.types import ListJobsQueryParams

client = NemoClient.from_config()
page = client.jobs.list_jobs(
    workspace='default',
    query_params=ListJobsQueryParams(filter={'status': 'error', 'source': 'customization'}),
).page()
for item in page.items:
    print(item.model_dump_json())
"""


@pytest.mark.parametrize(("wanted", "text"), [("csv", CSV), ("markdown", MARKDOWN)])
def test_a_list_as_a_document(service, nemo, wanted, text):
    assert nemo("jobs", "list", "-f", wanted) == (0, text, "")


def test_a_list_as_a_table_drops_no_name_and_says_what_matters(service, nemo):
    ran = nemo("jobs", "list", "-f", "table")
    lines = "".join(f"{line.rstrip()}\n" for line in ran.out.splitlines())
    assert re.sub(r"kept \d+ d", "kept # d", lines) == TABLE


def test_a_page_behind_the_last_is_not_an_empty_workspace(service, nemo):
    said = "nemo: page 9 is past the end: there are 4 in all, on 1 page(s).\n"
    assert nemo("jobs", "list", "-f", "table", "--page", "9") == (0, "", said)


def test_a_list_as_json_and_yaml_holds_whole_jobs(service, nemo):
    listed = nemo("jobs", "list", "-f", "json")
    assert [job["name"] for job in listed.document] == NAMES
    assert listed.document[0]["spec"] == {"backend": "automodel"}
    assert yaml.safe_load(nemo("jobs", "list", "-f", "yaml").out) == listed.document


def test_raw_is_what_the_service_said_on_one_line(service, nemo):
    ran = nemo("jobs", "list", "-f", "raw")
    assert ran.out.count("\n") == 1
    assert ran.document["pagination"]["total_results"] == 4


def test_without_a_terminal_a_table_becomes_json(service, nemo):
    assert [job["name"] for job in nemo("jobs", "list").document] == NAMES


@pytest.mark.parametrize("args", [("--json", "jobs", "list"), ("jobs", "list", "--json")])
def test_json_may_stand_on_either_side(service, nemo, args):
    assert [job["name"] for job in nemo(*args).document] == NAMES


def test_json_and_another_format_contradict_each_other(service, nemo):
    ran = nemo("jobs", "list", "--json", "-f", "csv")
    assert (ran.status, ran.out) == (2, "")
    assert "--json and -f csv contradict each other" in ran.err


@pytest.mark.parametrize("wanted", ["json", "csv", "markdown"])
def test_one_entity_is_json_where_a_table_would_make_no_sense(service, nemo, wanted):
    assert nemo("jobs", "get", "done-1", "-f", wanted).document["name"] == "done-1"


CARDS = [
    ("jobs", "get", "done-1"),
    ("jobs", "get-status", "done-1"),
    ("jobs", "resume", "automodel-a1b2c3d4e5f6"),
]


@pytest.mark.parametrize("words", CARDS, ids=" ".join)
def test_a_table_that_was_asked_for_is_a_table_also_where_nobody_looks(service, nemo, words):
    ran = nemo(*words, "-f", "table")
    assert ran.status == 0
    assert words[2] in ran.out
    assert not ran.out.startswith("{")
    assert "\x1b" not in ran.out


def test_what_has_no_card_is_a_table_of_one_row(service, nemo):
    assert nemo("workspaces", "create", "lab").document["name"] == "lab"
    head, row = nemo("workspaces", "create", "lab2", "-f", "table").out.splitlines()
    assert dict(zip(head.split(), row.split(), strict=False))["id"] == "lab2"


def test_one_entity_as_yaml(service, nemo):
    assert yaml.safe_load(nemo("jobs", "get", "done-1", "-f", "yaml").out)["status"] == "completed"


def test_stream_is_one_record_a_line(service, nemo):
    lines = nemo("jobs", "list", "--stream").out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == NAMES


def test_a_page_that_is_not_all_says_so_on_stderr(service, nemo):
    ran = nemo("jobs", "list", "--page-size", "3", "--json")
    assert [job["name"] for job in ran.document] == NAMES[:3]
    assert (
        ran.err == "nemo: this is page 1 of 2 (4 in all); --page 2 shows the next, --all-pages all of them.\n"
    )


def test_all_pages_are_all_of_them(service, nemo):
    ran = nemo("jobs", "list", "--page-size", "1", "--all-pages", "--json")
    assert ([job["name"] for job in ran.document], ran.err) == (NAMES, "")
    ran = nemo("jobs", "list", "--page-size", "1", "--all-pages", "--stream")
    assert [json.loads(line)["name"] for line in ran.out.splitlines()] == NAMES


def test_columns_may_lead_into_a_value(service, nemo):
    ran = nemo("jobs", "list", "-f", "csv", "-c", "name,spec.backend", "--filter.status", "completed")
    assert ran.out == "name,spec.backend\ndone-1,automodel\n"


def test_all_columns_are_every_key(service, nemo):
    head = nemo("jobs", "list", "-f", "csv", "-c", "all").out.splitlines()[0]
    assert head.startswith("id,attempt_id,name,workspace,")


def test_a_column_that_is_not_there_is_refused_with_the_one_that_was_meant(service, nemo):
    ran = nemo("jobs", "list", "-f", "csv", "-c", "name,stauts")
    assert (ran.status, ran.out) == (2, "")
    assert "There is no column 'stauts' (did you mean 'status'?)" in ran.err


def test_code_is_the_python_that_does_it_and_asks_nothing(service, nemo):
    words = ("jobs", "list", "--filter.status", "error", "--filter.source", "customization", "-f", "code")
    assert nemo(*words) == (0, CODE, "")
    assert service.requests == []


@pytest.mark.e2e
@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "list", "--filter.status", "error", "--all-pages"),
        ("jobs", "get", "done-1"),
        ("jobs", "control", "automodel-a1b2c3d4e5f6", "--pause-ttl-seconds", "1209600"),
        ("jobs", "rerun", "rl-ffffffffffff"),
        ("jobs", "checkpoints", "list", "done-1"),
        ("jobs", "delete", "done-1", "--yes"),
        ("jobs", "create", "new-1", "--input-file", "BODY"),
    ],
    ids=" ".join,
)
def test_the_printed_python_runs_and_asks_for_the_same(service, nemo, tmp_path, words):
    body = {"source": "s", "spec": {"a": [1, None]}, "platform_spec": {"steps": [STEP]}}
    (tmp_path / "body.json").write_text(json.dumps(body))
    words = [str(tmp_path / "body.json") if word == "BODY" else word for word in words]
    program = nemo(*words, "-f", "code").out
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    by_python = service.requests[:]
    service.requests.clear()
    service.__init__()
    assert nemo(*words).status == 0
    assert [r | {"authorization": None} for r in service.requests] == by_python


STEP = {
    "name": "training",
    "executor": {"provider": "subprocess", "command": ["true", "it's"]},
    "environment": [{"name": "A", "value": "1"}, {"name": "HF_TOKEN", "from_secret": {"name": "hf"}}],
    "lifecycle": {"pause_deadline_seconds": 60},
}

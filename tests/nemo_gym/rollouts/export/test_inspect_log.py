"""Logs of Inspect, read back with its own functions."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.engines import CACHE
from tests.nemo_gym.rollouts.export.outputs import THOUGHTS, exported

from nemo_gym.rollouts.export.inspect_log import write_inspect
from nemo_gym.rollouts.export.inspect_turns import turn_messages
from nemo_runs.environments import installing
from nemo_runs.environments.installing import EnvironmentRecipe, PinsFile

PINS = Path(__file__).resolve().parents[4] / "requirements" / "inspect.txt"
READ = """
import json, sys
from inspect_ai.analysis._dataframe.samples.table import sample_messages_from_events
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries
found = []
for path in sys.argv[1:]:
    log = read_eval_log(path)
    read_eval_log_sample_summaries(path)
    samples = [
        [sample.id, sample.epoch, sample.output.completion, sample.target,
         sample.scores["reward"].value if sample.scores else None,
         sample.error.message if sample.error else None,
         sample.messages[-1].role, sample.output.stop_reason if sample.output.choices else None,
         [event.event for event in sample.events], sample_messages_from_events(sample.events, None)
         == sample.messages]
        for sample in sorted(log.samples or [], key=lambda sample: (sample.id, sample.epoch))
    ]
    metrics = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    found.append([log.status, log.eval.model, log.eval.task, metrics, samples])
print(json.dumps(found))
from inspect_ai.model import ChatMessageAssistant, ChatMessageTool
for message in json.loads(sys.stdin.read()):
    (ChatMessageTool if message["role"] == "tool" else ChatMessageAssistant).model_validate(message)
"""


def test_a_log_holds_each_rollout_once(tmp_path: Path) -> None:
    path = write_inspect(exported(tmp_path / "a"), tmp_path / "out")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        first = json.loads(archive.read("samples/1_epoch_1.json"))
        summaries = json.loads(archive.read("summaries.json"))
    assert len([name for name in names if name.startswith("samples/")]) == len(summaries) == 6
    assert first["messages"][-1]["content"][0] == {"type": "reasoning", "reasoning": THOUGHTS}
    assert first["scores"]["reward"]["explanation"] == "understood as 0, expected 0"
    asked, scored = first["events"]
    assert [*asked["input"], asked["output"]["choices"][0]["message"]] == first["messages"]
    assert (scored["score"], scored["target"]) == (first["scores"]["reward"], "0")


TURNS = [
    {
        "output": [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "I add."}]},
            {"type": "function_call", "call_id": "1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call", "call_id": "2", "name": "add", "arguments": "{bad"},
        ],
        "calls": [
            {"call_id": "1", "name": "add", "result": "1"},
            {"call_id": "2", "name": "add", "result": "not JSON", "error": True},
        ],
    },
    {"output": [{"type": "message", "content": [{"type": "output_text", "text": "1"}]}], "calls": []},
]


def test_turns_with_tools_are_messages() -> None:
    asked, first, second = turn_messages(TURNS)
    assert asked["content"][0] == {"type": "reasoning", "reasoning": "hm"}
    assert asked["tool_calls"][0]["arguments"] == {"a": 1}
    assert asked["tool_calls"][1]["arguments"] == {"invalid_arguments": "{bad"}
    assert "Expecting property name" in asked["tool_calls"][1]["parse_error"]
    assert first == {"role": "tool", "content": "1", "tool_call_id": "1", "function": "add"}
    assert second["error"]["message"] == "not JSON"
    assert list(turn_messages([])) == []


def test_unpublished_rows_are_not_in_it(tmp_path: Path) -> None:
    output = exported(tmp_path / "a", "gpqa")
    path = write_inspect(output, tmp_path / "out")
    assert b"What is" not in path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert "What is" not in "".join(archive.read(name).decode() for name in archive.namelist())


@pytest.mark.slow
@pytest.mark.services
def test_inspect_reads_them(tmp_path: Path) -> None:
    recipe = EnvironmentRecipe(name="inspect", device="cpu", pins=(PinsFile(PINS.name, PINS.read_text()),))
    python = installing.python_of(installing.install(recipe, CACHE, report=print))
    paths = [write_inspect(exported(tmp_path / name, name), tmp_path / "out") for name in ("sums", "gpqa")]
    argv = [str(python), "-c", READ, *map(str, paths)]
    turns = json.dumps(list(turn_messages(TURNS)))
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, input=turns)
    assert done.returncode == 0, done.stderr
    sums, gpqa = json.loads(done.stdout.splitlines()[-1])
    assert sums[:3] == ["cancelled", "org/model-1", "sums"]
    assert sums[3]["accuracy"] == gpqa[3]["accuracy"] == 0.5
    assert [sample[:2] for sample in sums[4]] == [[1, 1], [1, 2], [2, 1], [2, 2], [3, 1], [3, 2]]
    assert [sample[4] for sample in sums[4]] == [1.0, 0.0, 0.0, 1.0, 0.5, None]
    assert sums[4][0][2:4] == ["thought of 0", "0"]
    assert sums[4][2][7] == "max_tokens"
    assert sums[4][5][5].startswith("model_call_failed")
    assert [sample[8] for sample in sums[4]] == [["model", "score"]] * 5 + [["model"]]
    assert all(sample[9] for sample in sums[4])
    assert gpqa[4] == []
    bundle = [str(python), "-m", "inspect_ai", "view", "bundle", "--log-dir", str(tmp_path / "out")]
    made = [*bundle, "--output-dir", str(tmp_path / "bundle")]
    done = subprocess.run(made, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    listing = json.loads((tmp_path / "bundle" / "logs" / "listing.json").read_text())
    assert sorted(one["task"] for one in listing.values()) == ["gpqa", "sums"]


def test_arguments_nested_deeper_than_any_reader_goes_are_kept_as_text() -> None:
    deep = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"
    turns = [
        {"output": [{"type": "function_call", "call_id": "1", "name": "add", "arguments": deep}]},
        {"output": []},
    ]
    (call,) = next(turn_messages(turns))["tool_calls"]
    assert call["arguments"] == {"invalid_arguments": deep}
    assert "recursion" in call["parse_error"]

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.errors import DataError
from nemo_gym.rollouts.data.dataset import Planned, check_rows, materialize, read_rows
from nemo_gym.rollouts.policy.apis import request_body
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.types import Episode, Row, Task, Verdict
from nemo_gym.verifiers.match import MatchOptions


class Grader:
    """A verifier that needs the field `answer`."""

    Options = MatchOptions

    def check_row(self, row: Row) -> str | None:
        return None if "answer" in row else "no 'answer'"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        raise AssertionError("no answer is graded here")


def config(prompt: dict[str, str] | None = None, **more: Any) -> RunConfig:
    benchmark = {
        "name": "toy",
        "datasets": {"benchmark": {"jsonl_fpath": "/nowhere.jsonl"}},
        "verifier": {"type": "match"},
        "prompt": prompt,
    }
    return RunConfig.model_validate({"benchmark": benchmark, **more})


ASK = {"user": "What is {a}?"}


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(lines))
    return path


def rows_of(config: RunConfig, *rows: Row) -> list[Row]:
    return [json.loads(line) for line in materialize(config, rows)]


def test_odd_line_ends_blank_lines_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.jsonl", b'{"a":1,"answer":1}\n{"a":2,"answer":2}\n')
    odd = write(tmp_path / "odd.jsonl", b'\xef\xbb\xbf{"a":1,"answer":1}\r\n\r\n  \n{"a":2,"answer":2}')
    assert list(read_rows(odd)) == list(read_rows(plain)) == [{"a": 1, "answer": 1}, {"a": 2, "answer": 2}]
    facts = [check_rows(config(ASK), path, Grader()) for path in (plain, odd)]
    assert facts[0].sha256 == facts[1].sha256
    assert [fact.num_tasks for fact in facts] == [2, 2]


def test_line_and_paragraph_separators_inside_of_strings_are_text(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\x0cfive"
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"a": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    (line,) = materialize(config(ASK), read_rows(path))
    assert b"\n" not in line
    assert json.loads(line)["a"] == text
    assert json.loads(line)["responses_create_params"]["input"][0]["content"] == f"What is {text}?"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a":1', "is not JSON: Expecting ',' delimiter at column 7"),
        (b"[1]", "must be an object in braces, not a list"),
        (b'{"a":1}{"a":2}', "is not one JSON object: more follows at column 8; give each one its own line"),
        (b'{"a":NaN}', "holds NaN, which is not a number in JSON; leave it out, or write null"),
        (b'{"a":"\xff"}', "is not UTF-8: it has the byte 0xff after 6 others; if the file is in Latin-1"),
        (b'{"a":"\\ud800"}', "holds half of a character"),
        (b'{"a":12345678901234567890123}', "has more than 64 bits; write it as text, in quotes"),
        (b'{"b":1,"answer":1}', "the prompt needs the field a, which this row lacks; it has b, answer"),
        (b"{}", "the prompt needs the field a, which this row lacks; it has none"),
        (b'{"a":null,"answer":1}', "the prompt needs the field a, which is null in this row"),
        (b'{"a":1}', "no 'answer'"),
        (b'{"a":1,"answer":1,"answer":2}', "has the key 'answer' more than once in one object"),
        (b'{"a":1,"answer" : 1,"meta":{"x":1,"x":1}}', "has the key 'x' more than once in one object"),
        (b'{"a":1,"answer":1,"_ng_task_index":0}', "a key that begins with _ng_"),
        (b'{"a":1,"answer":1,"responses_create_params":[]}', "responses_create_params must be an object"),
        (b'{"a":1,"answer":1,"responses_create_params":{"input":"x"}}', "but the benchmark has a prompt"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_file_and_line(
    tmp_path: Path, line: bytes, message: str
) -> None:
    path = write(tmp_path / "a.jsonl", b'{"a":1,"answer":1}\n', b"\n", line + b"\n")
    with pytest.raises(DataError) as caught:
        check_rows(config(ASK), path, Grader())
    assert str(caught.value).startswith(f"{path}:3: ")
    assert message in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("prompt", "row", "refused"),
    [
        ("{{question}}", {"question": "1 + 1"}, True),
        ("{{ question }}\nA. {a}", {"question": "1 + 1", "a": 2}, True),
        ("{a} as {{question}}", {"a": 1}, False),
        ('{a} as {{"question": 1}}', {"question": "1 + 1", "a": 1}, False),
        (r"{question} in \boxed{{}}", {"question": "1 + 1"}, False),
        ("{{{question}}}", {"question": "1 + 1"}, False),
    ],
)
def test_a_field_in_double_braces_as_other_tools_write_it_is_refused(
    tmp_path: Path, prompt: str, row: Row, refused: bool
) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps({**row, "answer": 1}).encode())
    asked = config(prompt={"user": prompt})
    if not refused:
        assert check_rows(asked, path, Grader()).num_tasks == 1
        return
    with pytest.raises(
        DataError, match=r"a.jsonl:1: the prompt has question in double .*write {question} for"
    ):
        check_rows(asked, path, Grader())


def test_a_conversation_elsewhere_in_the_row_is_pointed_out(tmp_path: Path) -> None:
    row = {"answer": 1, "messages": [{"role": "user", "content": "1 + 1"}]}
    path = write(tmp_path / "a.jsonl", json.dumps(row).encode())
    with pytest.raises(
        DataError, match=r"has no prompt; name it: benchmark\.prompt\.conversation=messages\.$"
    ):
        check_rows(config(), path, Grader())


@pytest.mark.parametrize("own", [{}, {"input": []}, {"input": ""}, {"input": ["x"]}, {"input": 3}])
def test_without_a_prompt_a_row_must_have_its_own_input(tmp_path: Path, own: Row) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps({"answer": 1, "responses_create_params": own}).encode())
    with pytest.raises(DataError, match=r"a.jsonl:1: lacks responses_create_params.input"):
        check_rows(config(), path, Grader())


def test_an_empty_file_a_missing_one_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no rows"):
        check_rows(config(ASK), write(tmp_path / "a.jsonl", b"\n\n"), Grader())
    with pytest.raises(DataError, match="there is no such file"):
        check_rows(config(ASK), tmp_path / "none.jsonl", None)
    with pytest.raises(DataError, match="is a folder"):
        list(read_rows(tmp_path))


def test_the_digest_covers_the_rows_in_use_and_no_others(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"a":1,"answer":1}\n{"a":2}\nbroken\n')
    facts = check_rows(config(ASK, limit=1), path, Grader())
    assert (facts.num_tasks, facts.sha256) == (1, hashlib.sha256(b'{"a":1,"answer":1}\n').hexdigest())
    assert check_rows(config(ASK, limit=1), path, None) == facts
    assert list(read_rows(path, limit=1)) == [{"a": 1, "answer": 1}]


def test_a_planned_rollout_is_the_row_with_indices_first_and_what_is_sent() -> None:
    run = config(
        {"system": "Be {mood}.", "user": "{{What}} is {a}? {list}"},
        responses_create_params={"temperature": 0.0, "max_output_tokens": 8},
        num_repeats=2,
    )
    own = {"temperature": 1.0, "top_p": 0.5}
    row = {"a": 7, "mood": "kind", "list": [1, "é"], "agent_ref": "x", "responses_create_params": own}
    lines = list(materialize(run, [row, row | {"a": 8}]))
    starts = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [line[:42] for line in lines] == [
        b'{"_ng_task_index":%d,"_ng_rollout_index":%d,' % at for at in starts
    ]
    assert json.loads(lines[1]) == {
        "_ng_task_index": 0,
        "_ng_rollout_index": 1,
        "a": 7,
        "mood": "kind",
        "list": [1, "é"],
        "responses_create_params": {
            "input": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": '{What} is 7? [1, "é"]'},
            ],
            "temperature": 0.0,
            "top_p": 0.5,
            "max_output_tokens": 8,
        },
        "agent_ref": {"name": "single_turn"},
        "task_source": "toy",
    }


def test_an_own_input_is_kept_as_it_is() -> None:
    messages = [{"role": "user", "content": "{not a field}"}]
    (row,) = rows_of(config(), {"responses_create_params": {"input": messages, "tools": []}})
    assert row["responses_create_params"] == {"input": messages, "tools": []}


@pytest.mark.parametrize(
    "options", [{}, {"num_repeats": 3}, {"num_repeats": 2, "num_repeats_add_seed": True}]
)
@pytest.mark.parametrize("limit", [None, 2])
def test_the_check_keeps_the_very_lines_that_a_second_reading_gives(tmp_path: Path, options, limit) -> None:
    lines = [
        b'{"a":1,"answer":0.10,"agent_ref":{"name":"x"},"big":18446744073709551615}',
        '{"a":"ü","answer":2,"responses_create_params":{"seed":7,"top_p":0.5}}'.encode(),
        b'{"a":3,"answer":[3],"text":"say \\"b\\": 1"}',
    ]
    path = write(tmp_path / "a.jsonl", b"\n".join(lines) + b"\n")
    run, planned = config(ASK, limit=limit, **options), Planned()
    facts = check_rows(run, path, Grader(), planned=planned)
    assert facts == check_rows(run, path, None)
    assert planned.lines == list(materialize(run, read_rows(path, limit=limit)))
    planned.forget()
    assert planned.lines is None


def test_rollouts_that_take_too_much_memory_are_not_kept_nor_those_of_unread_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"a":1,"answer":1}\n' * 10)
    few, many, unread = Planned(), Planned(1000), Planned()
    check_rows(config(ASK), path, Grader(), planned=few)
    assert check_rows(config(ASK), path, Grader(), planned=many).num_tasks == 10
    check_rows(config(ASK), path, None, planned=unread)
    assert len(few.lines or ()) == 10
    assert (many.lines, unread.lines) == (None, None)


def test_what_a_verifier_does_to_a_row_does_not_reach_the_planned_rollouts(tmp_path: Path) -> None:
    class Meddler(Grader):
        def check_row(self, row: Row) -> str | None:
            row["a"] = row["responses_create_params"] = "mine"
            return None

    path, planned = write(tmp_path / "a.jsonl", b'{"a":1,"answer":1}\n'), Planned()
    check_rows(config(ASK), path, Meddler(), planned=planned)
    assert planned.lines == list(materialize(config(ASK), read_rows(path)))


def test_repeats_get_seeds_of_their_own_when_asked() -> None:
    for params, seeds in (({}, [0, 1, 2]), ({"seed": 40}, [40, 41, 42])):
        run = config(ASK, num_repeats=3, num_repeats_add_seed=True, responses_create_params=params)
        assert [row["responses_create_params"]["seed"] for row in rows_of(run, {"a": 1})] == seeds


@pytest.mark.parametrize(
    "own", [{"tools": ["x"]}, {"reasoning": "high"}, {"extra_body": [1]}, {"seed": "abc"}, {"seed": True}]
)
def test_a_row_whose_parameters_make_no_request_is_refused(tmp_path: Path, own: Row) -> None:
    path = write(
        tmp_path / "a.jsonl", json.dumps({"a": 1, "answer": 1, "responses_create_params": own}).encode()
    )
    with pytest.raises(DataError, match=r"a.jsonl:1: its responses_create_params make no request: "):
        check_rows(config(ASK, num_repeats_add_seed=True), path, Grader())


def test_a_row_that_changed_after_the_check_is_named_by_its_number() -> None:
    with pytest.raises(DataError, match=r"row 1: the prompt needs the field a"):
        rows_of(config(ASK), {"a": 1}, {"b": 1})


def test_a_row_in_which_texts_look_like_keys_is_read_as_it_is(tmp_path: Path) -> None:
    line = b'{"a":"say \\"b\\": 1, and \\"b\\" : 2","answer" : {"b":[{"b":1},{"b":2}]}}\n'
    path = write(tmp_path / "a.jsonl", line)
    assert check_rows(config(ASK), path, Grader()).num_tasks == 1
    assert list(read_rows(path)) == [json.loads(line)]


@pytest.mark.slow
def test_twenty_thousand_rows_are_checked_and_planned(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"a":{n},"answer":"{n}","uuid":"{n:036}"}}\n' for n in range(20_000)))
    assert check_rows(config(ASK), path, Grader()).num_tasks == 20_000
    assert sum(1 for _ in materialize(config(ASK), read_rows(path))) == 20_000


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("w") as stream:
        stream.writelines(f'{{"a":{n},"answer":{n},"text":"{"x" * 500}"}}\n' for n in range(100_000))
    script = """
import resource, sys
from pathlib import Path
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.rollouts.data.dataset import check_rows, materialize, read_rows
from nemo_gym.rollouts.policy.apis import request_body
config = RunConfig.model_validate({"benchmark": {"name": "toy",
    "datasets": {"benchmark": {"jsonl_fpath": "x"}}, "verifier": {"type": "match"},
    "prompt": {"user": "{a}"}}})
path = Path(sys.argv[1])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
list(materialize(config, read_rows(path, limit=10)))
before = peak()
check_rows(config, path, None)
for _ in materialize(config, read_rows(path)):
    pass
print(peak() - before)
"""
    grown = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert int(grown.stdout) < 5_000  # KiB; the file has 50 MB


RUN = {"policy_model_name": "student"}


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"model": "teacher-large"}, "model is 'teacher-large', but the run asks 'student'"),
        ({"extra_body": {"model": "teacher-large"}}, "extra_body.model is 'teacher-large'"),
        ({"stream": True}, "stream is True; one whole answer"),
        ({"n": 2}, "n is 2; one whole answer"),
        ({"extra_body": {"n": 4}}, "extra_body.n is 4"),
        ({"background": True}, "background is True"),
        ({"base_url": "http://other/v1"}, "base_url belongs to the run"),
        ({"api_key": "k"}, "api_key belongs to the run"),
        ({"extra_headers": {"x": "y"}}, "extra_headers belongs to the run"),
        ({"extra_body": {"models": ["a", "b"]}}, "extra_body.models belongs to the run"),
        ({"previous_response_id": "r1"}, "previous_response_id belongs to the run"),
        ({"extra_body": {"messages": []}}, "extra_body.messages would replace the question"),
    ],
)
@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
def test_what_belongs_to_the_run_is_refused_in_a_row_by_file_and_line(
    tmp_path: Path, own: Row, message: str, api: str
) -> None:
    good = {"answer": 1, "responses_create_params": {"input": "x", "temperature": 0, "model": "student"}}
    bad = {"answer": 1, "responses_create_params": {"input": "x", **own}}
    path = write(tmp_path / "a.jsonl", *(json.dumps(row).encode() + b"\n" for row in (good, bad)))
    with pytest.raises(DataError) as caught:
        check_rows(config(policy_api=api, **RUN), path, Grader())
    assert str(caught.value).startswith(f"{path}:2: its responses_create_params cannot be used: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
@pytest.mark.parametrize("where", ["params", "extra_body"])
def test_no_parameter_of_a_planned_rollout_reaches_another_model(api: Any, where: str) -> None:
    """Inputs that an earlier version materialized are not checked again, so the body is the last guard."""
    own = {"model": "teacher-large", "stream": True, "n": 2, "stream_options": {"include_usage": True}}
    params = {"input": "x", **(own if where == "params" else {"extra_body": own})}
    body = request_body(api, "student", params)
    assert body["model"] == "student"
    assert not body.keys() & {"stream", "n", "stream_options"}


@pytest.mark.parametrize(
    "extra", [{"model": "other"}, {"n": 2}, {"stream": True}, {"messages": []}, {"input": "x"}]
)
def test_the_runs_own_extra_body_cannot_name_another_model_question_or_kind_of_answer(extra: Row) -> None:
    with pytest.raises(ValueError, match=f"extra_body.{next(iter(extra))} "):
        config(responses_create_params={"extra_body": extra})
    config(responses_create_params={"extra_body": {"top_k": 5, "provider": {"order": ["a"]}}})


@pytest.mark.parametrize("name", ["task_source", "agent_ref"])
def test_a_field_that_the_run_replaces_is_none_to_grade_with(tmp_path: Path, name: str) -> None:
    class ByName(Grader):
        def check_row(self, row: Row) -> str | None:
            return None if name in row else f"no '{name}'"

    path = write(tmp_path / "a.jsonl", json.dumps({"a": 1, name: "x"}).encode())
    with pytest.raises(DataError, match=f"a.jsonl:1: no '{name}'"):
        check_rows(config(ASK), path, ByName())
    assert rows_of(config(ASK), {"a": 1, name: "x"})[0][name] in ("toy", {"name": "single_turn"})

"""What a row becomes: columns by other names, templates, examples, conversations, images and tools."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.data.dataset import check_rows, materialize, read_rows
from nemo_gym.rollouts.data.image_data import file_names, image_parts
from nemo_gym.rollouts.policy.apis import request_body
from nemo_gym.rollouts.run_config.identity import identity_of
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.types import Row
from nemo_gym.verifiers.registry import load_verifier

PNG = b"\x89PNG\r\n\x1a\nrest"


def config(folder: Path, prompt: dict[str, Any] | None, rows: list[Row], **more: Any) -> RunConfig:
    """A run of the rows, which are written into a file."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    datasets = {"benchmark": {"jsonl_fpath": str(folder / "rows.jsonl")}, **more.pop("datasets", {})}
    fields = more.pop("fields", None)
    benchmark = {
        "name": "toy",
        "datasets": datasets,
        "verifier": {"type": "match"},
        "prompt": prompt,
        "fields": fields,
    }
    return RunConfig.model_validate({"benchmark": benchmark, **more})


def planned(config: RunConfig) -> list[Row]:
    path = config.benchmark.datasets["benchmark"].jsonl_fpath
    assert path is not None
    check_rows(config, path, load_verifier(config.benchmark.verifier))
    return [json.loads(line) for line in materialize(config, read_rows(path))]


def inputs(config: RunConfig) -> list[Any]:
    return [row["responses_create_params"]["input"] for row in planned(config)]


def user(text: str) -> Row:
    return {"role": "user", "content": text}


def test_columns_have_the_names_that_prompt_and_verifier_use(tmp_path: Path) -> None:
    rows = [{"prompt": "1 + 1", "gold": {"values": ["2", "two"]}, "level": 3}]
    fields = {"question": "prompt", "expected_answer": "gold.values.0", "difficulty": "level"}
    (row,) = planned(config(tmp_path, {"user": "{question} ({difficulty})"}, rows, fields=fields))
    assert row["responses_create_params"]["input"] == [user("1 + 1 (3)")]
    assert (row["expected_answer"], row["question"], row["difficulty"]) == ("2", "1 + 1", 3)
    assert "prompt" not in row
    assert row["gold"] == {"values": ["2", "two"]}


def test_two_columns_can_change_their_names(tmp_path: Path) -> None:
    rows = [{"question": "a", "expected_answer": "b"}]
    fields = {"question": "expected_answer", "expected_answer": "question"}
    (row,) = planned(config(tmp_path, {"user": "{question}"}, rows, fields=fields))
    assert (row["question"], row["expected_answer"]) == ("b", "a")


@pytest.mark.parametrize("column", ["gold", "answers.text.1", "answers.text.x", "q.x"])
def test_a_column_that_a_row_lacks_is_named_with_file_and_line(tmp_path: Path, column: str) -> None:
    rows = [{"q": "1", "answers": {"text": ["2"]}}]
    asked = config(tmp_path, {"user": "{q}"}, rows, fields={"expected_answer": column})
    with pytest.raises(
        DataError, match=rf"rows.jsonl:1: benchmark.fields takes expected_answer from {column}"
    ):
        planned(asked)


def test_jinja_templates_have_the_fields_and_control_flow(tmp_path: Path) -> None:
    prompt = {
        "syntax": "jinja2",
        "system": "{% if terse %}Be brief.{% else %}Take your time.{% endif %}",
        "user": "{{ question }}\n{% for c in choices %}{{ 'AB'[loop.index0] }}) {{ c }}\n{% endfor %}{x}",
    }
    rows = [{"question": "1 < 2?", "choices": ["yes", "<no>"], "terse": True, "expected_answer": "A"}]
    (messages,) = inputs(config(tmp_path, prompt, rows))
    assert messages[0] == {"role": "system", "content": "Be brief."}
    assert messages[1] == user("1 < 2?\nA) yes\nB) <no>\n{x}")


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ nothing }}", "'nothing' is undefined; the row has q, expected_answer"),
        ("{{ q.x.y }}", "has no attribute 'x'"),
        ("{{ n }}", "would write a field that is null in this row"),
        ("{{ q / 2 }}", r"the prompt cannot be made \(TypeError"),
        ("{{ q.__class__.__mro__ }}", "the prompt cannot be made"),
        ("{{ ''.join.__globals__ }}", "the prompt cannot be made"),
        ("{% for i in range(10 ** 9) %}{{ i }}{% endfor %}", r"the prompt cannot be made \(OverflowError"),
    ],
)
def test_a_jinja_template_reads_fields_and_nothing_else(tmp_path: Path, template: str, problem: str) -> None:
    rows = [{"q": "1", "expected_answer": "2", "n": None}]
    with pytest.raises(DataError, match=rf"rows.jsonl:1: .*{problem}"):
        planned(config(tmp_path, {"user": template, "syntax": "jinja2"}, rows))


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ({}, "needs user .* conversation .* or turns"),
        ({"user": "x", "conversation": "m"}, "one of them"),
        ({"user": "{{ a", "syntax": "jinja2"}, "user[^/]*is not a Jinja2 template: .* in line 1"),
        ({"user": "{a", "system": "x"}, "user[^/]*write {{ and }} for literal braces"),
        ({"turns": "m", "images": ["i"]}, "cannot be added"),
        ({"conversation": "m", "examples": {"rows": [{"a": 1}]}}, "cannot be added"),
        ({"user": "x", "images_in_text": True}, "images_in_text is for images"),
        ({"user": "x", "ends_with_answer": True}, "ends_with_answer is for a conversation"),
        ({"user": "x", "examples": {}}, "needs rows .* or split"),
        ({"user": "x", "examples": {"split": "train"}}, "needs count"),
        ({"user": "x", "examples": {"rows": [{"a": 1}], "count": 2}}, "has 1 rows, fewer"),
        ({"user": "x", "examples": {"rows": [{"a": 1}], "answer": "{"}}, "examples.answer"),
        ({"user": "x", "images": []}, "at least 1 item"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused(
    tmp_path: Path, prompt: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        config(tmp_path, prompt, [{}])


TRAIN = [{"q": f"{n} + {n}", "expected_answer": str(2 * n)} for n in range(1, 10)]
TEST = [{"q": "7 + 8", "expected_answer": "15"}, {"q": "1 + 8", "expected_answer": "9"}]


def with_examples(folder: Path, examples: dict[str, Any], **more: Any) -> RunConfig:
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TRAIN))
    datasets = {"train": {"jsonl_fpath": str(folder / "train.jsonl")}}
    prompt = {"system": "Add.", "user": "{q} =", "examples": examples}
    return config(folder, prompt, more.pop("rows", TEST), datasets=datasets, **more)


def test_examples_of_the_configuration_come_before_the_question(tmp_path: Path) -> None:
    examples = {"rows": TRAIN[:2], "answer": "{expected_answer}."}
    first, _ = inputs(with_examples(tmp_path, examples))
    assert first == [
        {"role": "system", "content": "Add."},
        user("1 + 1 ="),
        {"role": "assistant", "content": "2."},
        user("2 + 2 ="),
        {"role": "assistant", "content": "4."},
        user("7 + 8 ="),
    ]


def test_examples_and_question_can_be_one_message(tmp_path: Path) -> None:
    first, _ = inputs(with_examples(tmp_path, {"rows": TRAIN[:2], "in_one_message": True}))
    assert first[1:] == [user("1 + 1 = 2\n\n2 + 2 = 4\n\n7 + 8 =")]


def shown(messages: list[Row]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "assistant"]


def test_examples_of_another_split_are_the_first_or_drawn_and_the_same_every_time(tmp_path: Path) -> None:
    first = inputs(with_examples(tmp_path, {"split": "train", "count": 3}))
    assert [shown(messages) for messages in first] == [["2", "4", "6"]] * 2
    once = inputs(with_examples(tmp_path, {"split": "train", "count": 3, "draw": "once", "seed": 5}))
    assert shown(once[0]) == shown(once[1])
    assert shown(once[0]) != ["2", "4", "6"]
    each = inputs(with_examples(tmp_path, {"split": "train", "count": 3, "draw": "each_task", "seed": 5}))
    assert shown(each[0]) != shown(each[1])
    again = inputs(with_examples(tmp_path, {"split": "train", "count": 3, "draw": "each_task", "seed": 5}))
    assert again == each
    fewer = with_examples(tmp_path, {"split": "train", "count": 3, "draw": "each_task", "seed": 5}, limit=1)
    assert inputs(fewer)[0] == each[0]


@pytest.mark.parametrize("draw", ["first", "once", "each_task"])
def test_no_task_is_its_own_example(tmp_path: Path, draw: str) -> None:
    examples = {"split": "benchmark", "count": len(TRAIN) - 1, "draw": draw}
    for row, messages in zip(TRAIN, inputs(with_examples(tmp_path, examples, rows=TRAIN)), strict=True):
        assert row["expected_answer"] not in shown(messages)
        assert len(set(shown(messages))) == len(TRAIN) - 1
    with pytest.raises(ConfigError, match=r"examples.count: 9 are wanted, and there are 9 rows, its own"):
        inputs(with_examples(tmp_path, examples | {"count": len(TRAIN)}, rows=TRAIN))


def test_other_examples_make_another_identity(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    digests = []
    for answer in ("2", "3"):
        TRAIN[0]["expected_answer"] = answer
        asked = with_examples(tmp_path, {"split": "train", "count": 2})
        facts = check_rows(asked, path, None)
        identity = identity_of(
            asked, dataset_sha256=facts.sha256, examples_sha256=facts.examples_sha256, model=None
        )
        digests.append(identity.generation_digest)
    TRAIN[0]["expected_answer"] = "2"
    assert digests[0] != digests[1]


def test_an_example_that_lacks_a_field_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="example 1 cannot be shown: the prompt needs the field q"):
        inputs(with_examples(tmp_path, {"rows": [{"expected_answer": "1"}]}))


@pytest.mark.parametrize(
    "conversation",
    [
        [user("Hi"), {"role": "assistant", "content": "Hello."}, user("1 + 1?")],
        [
            {"from": "human", "value": "Hi"},
            {"from": "gpt", "value": "Hello."},
            {"from": "human", "value": "1 + 1?"},
        ],
        json.dumps([user("Hi"), {"role": "assistant", "content": "Hello."}, user("1 + 1?")]),
    ],
)
def test_a_conversation_is_asked_as_it_is_with_instructions_before_it(
    tmp_path: Path, conversation: Any
) -> None:
    rows = [{"messages": conversation, "expected_answer": "2"}]
    (messages,) = inputs(config(tmp_path, {"conversation": "messages", "system": "Be brief."}, rows))
    assert messages == [
        {"role": "system", "content": "Be brief."},
        user("Hi"),
        {"role": "assistant", "content": "Hello."},
        user("1 + 1?"),
    ]


@pytest.mark.parametrize(
    ("conversation", "problem"),
    [
        ([user("a"), {"role": "assistant", "content": "b"}], "ends with an answer of the assistant"),
        ([{"from": "narrator", "value": "b"}], "from 'narrator', a speaker that is not known"),
        (["a"], "message 1 of m is not an object"),
        ([], "must hold a conversation"),
        ("[1,", "begins like a list of messages and is not JSON"),
        (None, "needs the conversation in m, which this row lacks"),
    ],
)
def test_a_conversation_that_cannot_be_asked_is_refused(
    tmp_path: Path, conversation: Any, problem: str
) -> None:
    rows = [{"m": conversation, "expected_answer": "2"}]
    with pytest.raises(DataError, match=rf"rows.jsonl:1: .*{problem}"):
        planned(config(tmp_path, {"conversation": "m"}, rows))


def test_images_of_a_row_come_before_the_text(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "1.png").write_bytes(PNG)
    rows = [
        {"q": "What?", "image": "pictures/1.png", "expected_answer": "a"},
        {"q": "What?", "image": ["https://e.example/a.png", {"url": "data:image/png;base64,AA"}]},
        {"q": "What?", "image": None},
    ]
    rows = [{**row, "expected_answer": "a"} for row in rows]
    asked = config(tmp_path, {"user": "{q}", "images": ["image"]}, rows)
    of_a_file, of_addresses, of_none = inputs(asked)
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert of_a_file[0]["content"] == [
        {"type": "input_image", "image_url": url},
        {"type": "input_text", "text": "What?"},
    ]
    assert [part.get("image_url") for part in of_addresses[0]["content"][:2]] == [
        "https://e.example/a.png",
        "data:image/png;base64,AA",
    ]
    assert of_none == [user("What?")]
    body = request_body("chat", "m", {"input": of_a_file})
    assert body["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "What?"},
    ]


@pytest.mark.parametrize(
    "said",
    [
        ["Hi.", "Why?"],
        [
            {"from": "human", "value": "Hi."},
            {"from": "gpt", "value": "x"},
            {"from": "human", "value": "Why?"},
        ],
        [{"role": "user", "content": "Hi."}, {"role": "user", "content": "Why?"}],
        [{"content": "Hi."}, {"content": "Why?"}],
    ],
    ids=["MT-bench", "ShareGPT", "messages", "Arena-Hard"],
)
def test_what_the_user_says_is_planned_as_texts_in_every_shape(tmp_path: Path, said: Any) -> None:
    (row,) = planned(config(tmp_path, {"turns": "said"}, [{"said": said, "expected_answer": "a"}]))
    assert row["said"] == ["Hi.", "Why?"]
    assert row["responses_create_params"]["input"] == [{"role": "user", "content": "Hi."}]


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(base64.b64encode(PNG * 8).decode(), id="MMBench"),
        pytest.param({"bytes": base64.b64encode(PNG * 8).decode(), "path": "1.png"}, id="hub, as JSON"),
        pytest.param("data:image/png;base64," + base64.b64encode(PNG * 8).decode(), id="data URL"),
    ],
)
def test_an_image_within_the_row_is_no_file(image: Any) -> None:
    url = "data:image/png;base64," + base64.b64encode(PNG * 8).decode()
    assert image_parts(image, "i", Path("/nowhere")) == [{"type": "input_image", "image_url": url}]
    assert list(file_names([image, "a.png", {"path": "b.png"}])) == ["a.png", "b.png"]


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("none.png", "cannot be read: no such file"),
        ("rows.jsonl", "is not an image"),
        (7, "must hold an image: an address"),
        ("folder", "is not a file"),
    ],
)
def test_an_image_that_cannot_be_sent_is_refused(tmp_path: Path, image: Any, problem: str) -> None:
    (tmp_path / "folder").mkdir()
    rows = [{"q": "What?", "image": image, "expected_answer": "a"}]
    with pytest.raises(DataError, match=rf"rows.jsonl:1: .*{problem}"):
        planned(config(tmp_path, {"user": "{q}", "images": ["image"]}, rows))


def test_images_for_an_api_that_takes_only_text_are_refused_by_line(tmp_path: Path) -> None:
    rows = [{"q": "What?", "image": "https://e.example/a.png", "expected_answer": "a"}]
    asked = config(tmp_path, {"user": "{q}", "images": ["image"]}, rows, policy_api="completions")
    with pytest.raises(DataError, match=r"rows.jsonl:1: it makes no request: message 0 holds more than text"):
        planned(asked)


@pytest.mark.parametrize("as_text", [False, True])
def test_tools_of_a_row_reach_the_request(tmp_path: Path, as_text: bool) -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    given = json.dumps(tools) if as_text else tools
    rows = [{"q": "1 + 1", "tools": given, "expected_answer": "2"}, {"q": "Hi", "expected_answer": "2"}]
    first, second = planned(config(tmp_path, {"user": "{q}", "tools": "tools"}, rows))
    assert request_body("chat", "m", first["responses_create_params"])["tools"] == tools
    assert "tools" not in second["responses_create_params"]


@pytest.mark.parametrize(
    ("given", "problem"), [("[1", "is not JSON"), ({"a": 1}, "must hold a list of tools")]
)
def test_tools_that_are_none_are_refused(tmp_path: Path, given: Any, problem: str) -> None:
    rows = [{"q": "1 + 1", "tools": given, "expected_answer": "2"}]
    with pytest.raises(DataError, match=rf"rows.jsonl:1: the field tools .*{problem}"):
        planned(config(tmp_path, {"user": "{q}", "tools": "tools"}, rows))


def test_a_field_to_group_by_that_no_row_has_is_refused_before_the_first_request(tmp_path: Path) -> None:
    rows = [{"q": "1", "expected_answer": "2"}, {"q": "1", "expected_answer": "2", "level": 3}]
    asked = config(tmp_path, {"user": "{q}"}, rows)
    for fields, problem in ((["level"], None), (["level", "topic"], "no row of .* has the field topic")):
        benchmark = asked.benchmark.model_copy(update={"group_by": fields})
        grouped = asked.model_copy(update={"benchmark": benchmark})
        if problem is None:
            assert len(planned(grouped)) == 2
        else:
            with pytest.raises(ConfigError, match=rf"benchmark.group_by: {problem}"):
                planned(grouped)


@pytest.mark.parametrize(
    "talk",
    [
        [{"from": "human", "value": "1 + 1?"}, {"from": "gpt", "value": "2"}],
        [
            {"role": "user", "content": "1 + 1?"},
            {"role": "assistant", "content": [{"type": "text", "text": "2"}]},
        ],
        '[{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]',
    ],
)
def test_a_conversation_for_training_is_asked_without_its_last_answer_which_is_expected(
    tmp_path: Path, talk: Any
) -> None:
    prompt = {"conversation": "m", "ends_with_answer": True}
    rows = [{"m": talk}, {"m": talk, "expected_answer": "two"}]
    first, second = planned(config(tmp_path, prompt, rows))
    assert first["responses_create_params"]["input"] == [user("1 + 1?")]
    assert (first["expected_answer"], second["expected_answer"]) == ("2", "two")


@pytest.mark.parametrize(
    ("talk", "problem"),
    [
        ([{"role": "user", "content": "1 + 1?"}], "does not end with an answer of the assistant"),
        ([{"role": "assistant", "content": "2"}], "is an answer alone"),
        (None, "must hold a conversation"),
    ],
)
def test_a_conversation_without_such_an_answer_is_refused_by_line(
    tmp_path: Path, talk: Any, problem: str
) -> None:
    prompt = {"conversation": "m", "ends_with_answer": True}
    with pytest.raises(DataError, match=f"rows.jsonl:1: .*{problem}"):
        planned(config(tmp_path, prompt, [{"m": talk, "expected_answer": "2"}]))

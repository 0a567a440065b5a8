"""A recorded rollout as a value, and as text."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.result_rows import benchmark_config, result, run_config, write_manifest, write_output

from nemo_gym.rollouts.output.rows import encode_row
from nemo_gym.rollouts.reading.located import RolloutFilter, locate, selected
from nemo_gym.rollouts.reading.recorded import RecordedRollout, RolloutReader, prompt_messages
from nemo_gym.rollouts.reading.rollout_text import rollout_text
from nemo_gym.rollouts.reading.scored_texts import scored_texts


def read(folder: Path, results: dict[tuple[int, int], dict[str, Any]], **more: Any) -> list[RecordedRollout]:
    paths = write_output(folder, results, tasks=2, repeats=1, **more)
    located = locate(paths)
    return list(RolloutReader(located).read(selected(located, RolloutFilter())))


@pytest.mark.parametrize(
    ("fields", "outcome", "reason"),
    [
        (result(answer="0"), "right", "understood as 0, expected 0"),
        (result(reward=0.5, answer="0.1"), "partly right", "understood as 0.1, expected 0"),
        (result(reward=0.0, answer=None), "wrong", "no answer could be understood"),
        (
            result(reward=0.0, mask_sample=True),
            "masked",
            "left out of the score by its agent or its verifier",
        ),
        (result(reward=None), "not scored", "its verifier gave no number"),
        (
            result(reward=0.0, answer=None, cut=True, _ng_not_graded="max_output_tokens"),
            "wrong",
            "not graded: cut at the token limit",
        ),
    ],
)
def test_the_grade_has_its_reason(tmp_path: Path, fields: dict[str, Any], outcome: str, reason: str) -> None:
    (found,) = read(tmp_path, {(0, 0): fields})
    assert (found.outcome, found.reason, found.expected) == (outcome, reason, "0")
    assert (found.prompt, found.answer) == ([{"role": "user", "content": "What is 0 + 0?"}], "4")
    json.dumps(found.to_json())


def test_thoughts_are_apart_from_the_answer_and_folded_unless_asked_for(tmp_path: Path) -> None:
    fields = result("The answer is 4")
    thinking = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm. " * 100}]}
    fields["response"]["output"].insert(0, thinking)
    (found,) = read(tmp_path, {(0, 0): fields})
    assert (found.thoughts, found.answer) == ("Hm. " * 100, "The answer is 4")
    folded = rollout_text(found, benchmark="sums", thoughts=False, width=80)
    assert "thoughts (400 characters, folded; --thoughts shows all)" in folded
    assert folded.count("Hm.") < 30
    assert max(map(len, folded.splitlines())) <= 110
    assert rollout_text(found, benchmark="sums", thoughts=True, width=80).count("Hm.") == 100


def test_a_failed_rollout_shows_its_prompt_and_each_attempt(tmp_path: Path) -> None:
    failures = [(1, 0, "model_call_failed"), (1, 0, "agent_run_error")]
    (found,) = read(tmp_path, {}, failures=failures)
    assert (found.outcome, found.task, found.prompt[0]["content"]) == ("failed", 1, "What is 1 + 0?")
    text = rollout_text(found, benchmark="sums", thoughts=False, width=None)
    assert text.startswith("sums task 1, repeat 0: failed: agent_run_error")
    assert "failed attempt 1" in text
    assert "failed attempt 2" in text
    assert "\n  answer" not in text


def test_an_answer_without_a_grade_says_so(tmp_path: Path) -> None:
    paths = write_output(tmp_path, {}, tasks=1, repeats=1)
    fields = {key: value for key, value in result().items() if key not in ("reward", "extracted_answer")}
    paths.answers.write_bytes(encode_row(0, 0, fields) + b"\n")
    located = locate(paths)
    (found,) = RolloutReader(located).read(located.known())
    assert (found.outcome, found.reward, found.answer) == ("not graded yet", None, "4")


def test_the_expected_answer_is_the_field_that_the_verifier_names(tmp_path: Path) -> None:
    config = benchmark_config(tmp_path / "b", verifier="{type: match, mode: numeric, answer_field: gold}")
    paths = write_output(tmp_path, {(0, 0): result(gold=42)}, tasks=1, repeats=1)
    planned = json.loads(paths.materialized_inputs.read_text()) | {"gold": 42}
    paths.materialized_inputs.write_text(json.dumps(planned) + "\n")
    write_manifest(paths, run_config(config, "policy_model_name=m"), tasks=1, repeats=1)
    (found,) = RolloutReader(locate(paths)).read([(0, 0)])
    assert found.expected == "42"


def test_what_a_model_writes_cannot_drive_the_terminal(tmp_path: Path) -> None:
    (found,) = read(tmp_path, {(0, 0): result("\x1b[2Jgone\u202e\nnext", answer="\x07")})
    text = rollout_text(found, benchmark="sums", thoughts=False, width=None)
    assert "\x1b" not in text
    assert "\\x1b[2Jgone" in text
    assert "\\x202e" in text
    assert "\n    next" in text


@pytest.mark.parametrize(
    ("params", "messages"),
    [
        ({"input": "hello"}, [{"role": "user", "content": "hello"}]),
        (
            {"instructions": "be short", "input": [{"role": "user", "content": "hi"}]},
            [{"role": "system", "content": "be short"}, {"role": "user", "content": "hi"}],
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "see "}, {"type": "x"}]}]},
            [{"role": "user", "content": "see [x]"}],
        ),
        (
            {"input": [{"type": "function_call", "name": "f"}]},
            [{"role": "function_call", "content": '{"type": "function_call", "name": "f"}'}],
        ),
        (None, []),
    ],
)  # fmt: skip
def test_prompts_of_every_form_are_messages(params: Any, messages: list[dict[str, str]]) -> None:
    assert prompt_messages({"responses_create_params": params}) == messages


def scored_row(texts: list[str], target: str, contexts: list[int] | None = None) -> dict[str, Any]:
    pairs = [[number, [1]] for number in contexts or [0] * len(texts)]
    return {
        "lm_eval": {"task": "my_mc", "doc_id": 0, "doc_hash": "x"},
        "target": target,
        "likelihoods": {"rolling": False, "contexts": [[1], [2]], "pairs": pairs, "texts": texts},
    }


def scored(values: list[float]) -> dict[str, Any]:
    found = result(reward=0.0, answer="Rome", lm_eval_likelihoods=[[value, False] for value in values])
    found["response"]["output"] = []
    return {
        **found,
        "lm_eval_values": {},
        "_ng_agent_fields": ["lm_eval_likelihoods"],
        "_ng_verdict_fields": ["lm_eval_values"],
        "_ng_metrics": {"acc,none": 0.0, "acc_norm,none": None},
    }


def test_texts_that_were_scored_are_read_with_the_likeliest_and_the_expected_one(tmp_path: Path) -> None:
    fields = {**scored_row([" Rome", " Paris"], "1"), **scored([-3.0761, -6.0873])}
    (found,) = read(tmp_path, {(0, 0): {"expected_answer": None, **fields}})
    assert (found.expected, found.extracted, found.answer) == ("Paris", "Rome", "")
    assert [(each.text, each.likeliest, each.expected) for each in found.likelihoods] == [
        (" Rome", True, False),
        (" Paris", False, True),
    ]
    said = rollout_text(found, benchmark="my_mc", thoughts=False, width=80)
    assert '    0     -3.076  " Rome"  (likeliest)' in said
    assert '    1     -6.087  " Paris"  (expected)' in said
    assert "(none: the model was asked how likely texts are)" in said
    assert "    acc,none  0\n    acc_norm,none  not measured" in said
    assert "lm_eval_values" not in said
    json.dumps(found.to_json())


@pytest.mark.parametrize(
    ("row", "choices", "right"),
    [
        (scored_row(["3", "5", "4"], "2"), 3, 2),  # digits are a number, as lm-eval reads them
        (scored_row([" a", " b"], "b"), 2, 1),
        (scored_row([" a", " b"], "7"), 2, None),
        (scored_row([" x", " x"], "1", [0, 1]), 2, 1),  # choices that are contexts
        (scored_row([" a", " b", "a", "b"], "0", [0, 0, 1, 1]), 2, 0),  # once more without the question
        (scored_row([" a", " b", "a", "b"], "0", [0, 0, 0, 0]), 4, 0),
        (scored_row([" whole"], "x"), 1, None),
    ],
)
def test_the_texts_that_are_choices_are_told_from_others(
    row: dict[str, Any], choices: int, right: int | None
) -> None:
    count = len(row["likelihoods"]["texts"])
    found = scored_texts(row, {"lm_eval_likelihoods": [[-1.0, True]] * count})
    assert len(found) == choices
    assert (
        [each.expected for each in found].index(True) == right
        if right is not None
        else not any(each.expected for each in found)
    )


def test_a_whole_text_that_was_scored_has_one_number(tmp_path: Path) -> None:
    row = {"likelihoods": {"rolling": True, "contexts": [[1]], "pairs": [[0, [1]]], "texts": []}}
    (found,) = read(tmp_path, {(0, 0): {**scored([-27.25]), **row}})
    assert [each.text for each in found.likelihoods] == [None]
    assert "      -27.250  the prompt" in rollout_text(found, benchmark="b", thoughts=False, width=80)


def test_the_target_of_a_row_of_lm_eval_is_what_was_expected(tmp_path: Path) -> None:
    fields = {**result(), "x": 1, "lm_eval": {"task": "t"}, "target": "#### 18", "expected_answer": None}
    fields["_ng_agent_fields"] = ["x"]
    (found,) = read(tmp_path, {(0, 0): fields})
    assert found.expected == "#### 18"


def test_images_of_a_prompt_are_named_and_not_printed() -> None:
    parts = [
        {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 4000},
        {"type": "image_url", "image_url": {"url": "https://e.example/a.png"}},
        {"type": "input_text", "text": "Colour?"},
    ]
    (message,) = prompt_messages({"responses_create_params": {"input": [{"role": "user", "content": parts}]}})
    assert message["content"] == "[image: image/png, 3 kB]\n[image: https://e.example/a.png]\nColour?"

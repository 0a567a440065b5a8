"""A verifier that is one Python file: what it may define, what it may return, and how it may go wrong."""

import asyncio
import time

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.types import Episode, MetricInfo, RolloutFailedError, Task, Verdict
from nemo_gym.verifiers.python_file import as_verdict
from nemo_gym.verifiers.registry import load_verifier

TASK = Task(0, 0, {"expected_answer": "4", "question": "2 + 2?"})


def episode(text="it is 4 ", **more):
    part = {"type": "output_text", "text": text}
    return Episode({"output": [{"type": "message", "content": [part]}]}, **more)


def load(source, models=None, **options):
    return load_verifier({"type": "python", "path": "grade.py", "source": source, **options}, models)


def graded(source, answer=None, models=None, **options):
    return asyncio.run(load(source, models, **options).verify(TASK, answer or episode()))


@pytest.mark.parametrize(
    ("returned", "verdict"),
    [
        (True, Verdict(True, "x")),
        (0.5, Verdict(0.5, "x")),
        (None, Verdict(None, "x")),
        ({"reward": 1, "extracted_answer": None}, Verdict(1, None)),
        ({"reward": 0, "metrics": {"a": None}, "fields": {"b": 1}}, Verdict(0, "x", {"b": 1}, {"a": None})),
        (Verdict(0.25), Verdict(0.25)),
    ],
)
def test_a_number_a_mapping_or_a_verdict_may_be_returned(returned, verdict):
    assert as_verdict(returned, " x\n") == verdict


@pytest.mark.parametrize(
    ("returned", "message"),
    [({"score": 1}, "it has 'score'; known are reward"), ({"metrics": {}}, "it has no 'reward'")],
)
def test_a_mapping_with_other_keys_is_an_error(returned, message):
    with pytest.raises(TypeError, match=message):
        as_verdict(returned, "x")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def grad(answer): ...", "grade.py has no function grade"),
        ("def grade(answer, gold): ...", "parameter 'gold' that is not known; known are answer, row"),
        ("def grade(answer, models): ...", "must be an async function"),
        ("import nothing_of_the_kind", r"ModuleNotFoundError.*grade.py:1.*; the text of this file alone"),
        ("def grade(answer) ...", r"grade.py does not load: SyntaxError: expected ':' \(grade.py:1\)$"),
        ("metrics = {'a': 'up'}\ndef grade(answer): ...", r"metrics\['a'\] is 'up'"),
    ],
)
def test_a_file_that_cannot_grade_is_refused_when_it_is_loaded(source, message):
    with pytest.raises(ConfigError, match=message):
        load(source)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=f"there is no file {tmp_path}/grade.py"):
        load_verifier({"type": "python", "path": str(tmp_path / "grade.py")})
    with pytest.raises(ConfigError, match="needs a path"):
        load_verifier({"type": "python"})


def test_what_the_file_declares_is_the_verifiers():
    verifier = load(
        "from nemo_gym.types import MetricInfo\n"
        "metrics = {'a': 'lower', 'b': 'higher', 'c': None, 'd': MetricInfo(low=0)}\n"
        "graded_ends = ['refusal']\n"
        "def grade(answer): return 1\n"
        "def check_row(row): return None if 'gold' in row else \"no 'gold'\"\n"
        "def grade_group(rollouts): return {}\n"
    )
    directions = {name: info.higher_is_better for name, info in verifier.metrics.items()}
    assert directions == {"a": False, "b": True, "c": None, "d": None}
    assert verifier.metrics["d"] == MetricInfo(low=0)
    assert verifier.graded_ends == {"refusal"}
    assert verifier.check_row({}) == "no 'gold'"
    assert verifier.check_row({"gold": 1}) is None
    assert verifier.grade_group([]) == {}
    assert verifier.aggregate is None


def test_an_async_function_has_the_judge_models():
    class Judge:
        async def respond(self, params):
            return {"output": [{"type": "message", "content": [{"type": "output_text", "text": "yes"}]}]}

    source = (
        "from nemo_gym.types import output_text\n"
        "async def grade(models, row, episode, options):\n"
        "    said = output_text(await models['judge'].respond({'input': episode.text}))\n"
        "    return {'reward': said == options['yes'], 'fields': {'gold': row['expected_answer']}}\n"
    )
    verdict = graded(source, models={"judge": Judge()}, options={"yes": "yes"})
    assert (verdict.reward, verdict.extracted_answer, verdict.fields) == (True, "it is 4", {"gold": "4"})


@pytest.mark.slow
def test_a_plain_function_gets_what_it_asks_for_in_a_process_of_its_own():
    source = (
        "import os\n"
        "def judge(answer, row, episode, options, n=3):\n"
        "    print('not for the collector')\n"
        "    return {'reward': row['expected_answer'] in answer, 'fields': {'turns': episode.turns,\n"
        "            'pid': os.getpid(), 'note': episode.fields['note'], **options}, 'metrics': {'n': n}}\n"
    )
    verdict = graded(
        source, episode(turns=2, fields={"note": "é"}), function="judge", options={"bar": 1}, processes=1
    )
    assert (verdict.reward, verdict.metrics) == (True, {"n": 3})
    assert verdict.fields.pop("pid") != __import__("os").getpid()
    assert verdict.fields == {"turns": 2, "note": "é", "bar": 1}


@pytest.mark.slow
def test_what_goes_wrong_is_an_error_of_the_verifier_with_its_place_and_the_next_answer_is_graded():
    source = (
        "import os, time\n"
        "def grade(answer):\n"
        "    if answer == 'raise': raise ValueError('no such unit')\n"
        "    if answer == 'exit': os._exit(3)\n"
        "    if answer == 'object': return {'reward': 1, 'fields': {'x': object()}}\n"
        "    if answer == 'hang':\n"
        "        while True: pass\n"
        "    return 1\n"
    )
    verifier = load(source, timeout_seconds=6, processes=1)

    async def all_of_them():
        messages = []
        for text in ("raise", "exit", "object", "ok", "hang", "ok"):
            try:
                messages.append((await verifier.verify(TASK, episode(text))).reward)
            except RolloutFailedError as error:
                messages.append(f"{error.failure_class}: {error}")
        return messages

    started = time.monotonic()
    raised, gone, wrong, one, late, two = asyncio.run(all_of_them())
    assert raised == "verifier_error: ValueError: no such unit (grade.py:3, in grade)"
    assert gone == "verifier_error: the process that grades ended (status 3)"
    assert "Type is not JSON serializable: object" in wrong
    assert late == "verifier_error: grading took more than 6 s"
    assert (one, two) == (1, 1)
    assert time.monotonic() - started > 6


@pytest.mark.slow
def test_a_function_that_ends_the_program_fails_one_grade_in_its_own_words():
    with pytest.raises(RolloutFailedError, match="SystemExit: bye"):
        graded("def grade(answer): raise SystemExit('bye')\n")

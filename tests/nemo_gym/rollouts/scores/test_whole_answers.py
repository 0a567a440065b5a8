"""Only answers that ended well reach a verifier."""

import asyncio

import pytest
from pydantic import BaseModel

from nemo_gym.rollouts.output.result_rows import NOT_GRADED_FIELD
from nemo_gym.rollouts.policy.apis import to_response
from nemo_gym.rollouts.scores.whole_answers import WholeAnswers
from nemo_gym.types import ANSWER_ENDS, Episode, Task, Verdict
from nemo_gym.verifiers.registry import grades_at_once, grades_stored_answers, load_verifier


class Grader:
    Options = BaseModel

    def __init__(self):
        self.texts = []

    def check_row(self, row):
        return row.get("problem")

    async def verify(self, task, episode):
        self.texts.append(episode.text)
        return Verdict(1.0, episode.text)


def response(end, text="42"):
    details = None if end == "completed" else {"reason": end}
    item = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    return {
        "status": "incomplete" if details else "completed",
        "incomplete_details": details,
        "output": [item],
    }


def verdict(grader, answer, **options):
    return asyncio.run(WholeAnswers(grader, **options).verify(Task(0, 0, {}), Episode(answer)))


@pytest.mark.parametrize("end", [end for end in ANSWER_ENDS if end != "completed"])
def test_an_answer_that_did_not_end_well_gets_0_with_its_reason_unseen(end):
    grader = Grader()
    found = verdict(grader, response(end))
    assert (found.reward, found.extracted_answer, found.fields) == (0.0, None, {NOT_GRADED_FIELD: end})
    assert grader.texts == []


def test_whole_answers_and_those_that_the_benchmark_names_are_graded():
    grader = Grader()
    assert verdict(grader, response("completed")).reward == 1.0
    assert verdict(grader, response("max_output_tokens"), also=["max_output_tokens"]).fields == {}
    assert verdict(grader, response("refusal"), also=["max_output_tokens"]).reward == 0.0
    assert grader.texts == ["42", "42"]


def test_a_verifier_may_say_itself_which_ends_it_grades():
    grader = Grader()
    grader.graded_ends = frozenset({"refusal"})
    assert verdict(grader, response("refusal")).reward == 1.0
    assert verdict(grader, response("content_filter")).reward == 0.0


def test_a_verifier_sees_thoughts_only_where_the_benchmark_wants_it():
    text = "<think>41?</think>\n42"
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    answer = to_response("chat", {"choices": [choice]})
    grader = Grader()
    verdict(grader, answer)
    verdict(grader, answer, reasoning=True)
    assert grader.texts == ["42", text]


def test_rows_are_checked_by_the_verifier_and_its_word_on_stored_answers_counts():
    grader = Grader()
    assert WholeAnswers(grader).check_row({"problem": "no answer"}) == "no answer"
    assert grades_stored_answers(WholeAnswers(grader))
    grader.grades_stored_answers = False
    assert not grades_stored_answers(WholeAnswers(grader))


def test_an_episode_tells_how_it_ended_and_what_was_thought_and_refused():
    message = {"content": "No.", "refusal": "I cannot.", "reasoning": "Hm."}
    answer = to_response("chat", {"choices": [{"message": message, "finish_reason": "stop"}]})
    episode = Episode(answer)
    assert (episode.end, episode.reasoning, episode.refusal, episode.text) == (
        "refusal",
        "Hm.",
        "I cannot.",
        "No.",
    )


@pytest.mark.parametrize(
    "odd", [{}, {"output": "x"}, {"output": [1]}, {"output": [{"type": "message", "content": 4}]}]
)
def test_an_agents_own_odd_response_counts_as_completed(odd):
    assert Episode(odd).end == "completed"


def test_only_who_runs_nothing_of_somebody_else_grades_at_once():
    def at_once(**options):
        return grades_at_once(WholeAnswers(load_verifier({"type": "match", **options})))

    assert at_once(mode="numeric")
    assert at_once(mode="exact")
    assert not at_once(mode="regex", pattern="x(.)")
    assert not at_once(mode="numeric", answer_pattern="#### (.*)")
    assert not grades_at_once(
        WholeAnswers(load_verifier({"type": "multiple_choice", "grading_mode": "lenient_boxed"}))
    )

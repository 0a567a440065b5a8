"""Conversations with models that answer from a list."""

from __future__ import annotations

import json

import pytest

from nemo_models import talking, views
from nemo_models.conversations import Dialogue, ModelAnswer, SavedConversations
from nemo_models.talking import AnswerPart, RefusedQuestionError


class Talker:
    """Answers each question by its number of messages; some questions are refused, or interrupted."""

    def __init__(self):
        self.asked = []

    def answer(self, model, messages):
        self.asked.append((model, list(messages)))
        question = messages[-1]["content"]
        if question == "too long":
            raise RefusedQuestionError("the prompt has 900 tokens.")
        yield AnswerPart(f"{model} {len(messages)}")
        if question == "much":
            raise KeyboardInterrupt
        yield AnswerPart("!", "stop")


@pytest.fixture
def talker():
    return Talker()


def test_a_question_is_asked_with_all_that_was_said_before(talker):
    dialogue = Dialogue(talker, ["base", "sums"], "Be brief.")
    dialogue.ask("one", views.SilentView())
    answers = dialogue.ask("two", views.SilentView())
    assert [one.text for one in answers] == ["base 4!", "sums 4!"]
    assert talker.asked[-1] == (
        "sums",
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "sums 2!"},
            {"role": "user", "content": "two"},
        ],
    )


def test_ctrl_c_keeps_what_was_answered_and_the_conversation(talker):
    dialogue = Dialogue(talker, ["base", "sums"])
    answers = dialogue.ask("much", views.SilentView())
    assert [(one.text, one.finish) for one in answers] == [("base 1", "interrupted"), ("", "interrupted")]
    assert dialogue.ask("and?", views.SilentView())[0].text == "base 3!"


def test_a_question_that_is_refused_is_forgotten_and_says_why(talker, capsys):
    dialogue = Dialogue(talker, ["sums"])
    [answer] = dialogue.ask("too long", views.PlainView())
    assert answer.error == "the prompt has 900 tokens."
    assert dialogue.turns == []
    assert capsys.readouterr().err == "nemo: sums: the prompt has 900 tokens.\n"


def test_a_conversation_is_added_to_a_file_as_trainings_read_it(talker, tmp_path):
    file = tmp_path / "said.jsonl"
    file.write_text('{"messages": []}')  # without its last newline
    saved = SavedConversations(file)
    for questions in (["one", "two"], ["three"]):
        dialogue = Dialogue(talker, ["sums"])
        for question in questions:
            dialogue.ask(question, views.SilentView())
            saved.write(dialogue)
        saved.close(dialogue)
    rows = [json.loads(line)["messages"] for line in file.read_text().splitlines()]
    assert [[one["content"] for one in row] for row in rows] == [
        [],
        ["one", "sums 1!", "two", "sums 3!"],
        ["three", "sums 1!"],
    ]
    assert file.stat().st_mode & 0o077 == 0


def test_of_several_models_each_answer_is_below_its_name(talker, capsys):
    Dialogue(talker, ["base", "sums"]).ask("one", views.PlainView())
    assert capsys.readouterr().out == "base:\nbase 1!\nsums:\nsums 1!\n"


def test_two_columns_are_drawn_side_by_side(talker, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    Dialogue(talker, ["base", "sums"]).ask("one", views.TwoColumns())
    last = [line.split() for line in capsys.readouterr().out.splitlines() if "1!" in line][-1]
    assert last == ["base", "1!", "sums", "1!"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred", "\N{REPLACEMENT CHARACTER}[31mred"),
        ("a\r\nb\rc", "a\nb\N{REPLACEMENT CHARACTER}c"),
        ("\u202egnp.exe", "\N{REPLACEMENT CHARACTER}gnp.exe"),
        ("a\u200cb", "a\u200cb"),
    ],
)
def test_what_a_model_says_cannot_steer_the_terminal(text, shown):
    assert talking.shown(text) == shown


def test_an_answer_that_was_cut_says_so():
    assert "--max-tokens" in views.remark(ModelAnswer("m", "x", "length"))
    assert views.remark(ModelAnswer("m", "x", "stop")) == ""

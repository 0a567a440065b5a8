"""How an answer is cut into pieces, by tokens that are given and not computed."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from nemo_engines.answering import loaded
from nemo_engines.answering.asked import AnswerSettings
from nemo_engines.answering.loaded import NamedModel

TEXTS = ["12", " is", " the", " answer", "\N{REPLACEMENT CHARACTER}", "!", "<end>"]
END = len(TEXTS) - 1


class Words:
    eos_token_id = END

    def decode(self, ids, skip_special_tokens):
        text = "".join(TEXTS[one] for one in ids if one != END)
        return text.replace("\N{REPLACEMENT CHARACTER}!", "é")


MODEL = NamedModel("m", SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=None)), Words())


def pieces(monkeypatch, tokens, settings=None, given_up=None):
    monkeypatch.setattr(loaded, "_tokens", lambda *_: iter(tokens))
    given_up = given_up or threading.Event()
    return list(loaded._pieces(MODEL, [0, 1], settings or AnswerSettings(), 100, given_up))


def test_pieces_make_up_the_answer_and_the_last_one_counts_tokens(monkeypatch):
    found = pieces(monkeypatch, [0, 1, 2, END])
    assert [one.text for one in found] == ["12", " is", " the", ""]
    assert (found[-1].finish, found[-1].prompt_tokens, found[-1].answer_tokens) == ("stop", 2, 4)


def test_half_a_character_waits_for_its_other_half(monkeypatch):
    found = pieces(monkeypatch, [0, 4, 5])
    assert "".join(one.text for one in found) == "12é"
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(one.text for one in found[:-1])
    assert found[-1].finish == "length"


@pytest.mark.parametrize("stop", [" the", "s the", "is the ans"])
def test_a_stop_ends_the_answer_and_no_part_of_it_is_shown(monkeypatch, stop):
    found = pieces(monkeypatch, [0, 1, 2, 3], AnswerSettings(stop=(stop,)))
    whole = "12 is the answer"
    assert "".join(one.text for one in found) == whole[: whole.index(stop)]
    assert found[-1].finish == "stop"


def test_what_might_have_been_a_stop_is_shown_in_the_end(monkeypatch):
    found = pieces(monkeypatch, [0, 1], AnswerSettings(stop=("is not",)))
    assert "".join(one.text for one in found) == "12 is"


def test_an_answer_that_was_given_up_ends(monkeypatch):
    given_up = threading.Event()
    given_up.set()
    assert pieces(monkeypatch, [0, 1], given_up=given_up) == []

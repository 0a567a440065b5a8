"""Thoughts in the text of an answer: cut out, and put back to the letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.rollouts.policy.reasoning import TAGS, split, with_thoughts, without_thoughts
from nemo_gym.types import output_text, reasoning_text


def message(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content}


def apart(text):
    found = {"output": without_thoughts([message(text)])}
    return reasoning_text(found), output_text(found)


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>A is too easy.</think>\nAnswer: B", "A is too easy.", "Answer: B"),
        ("<think>\nA.\n</think>\n\nB", "A.", "B"),
        ("  <Think>A.</THINK>B", "A.", "B"),
        ("<think>a first guess is B, but", "a first guess is B, but", ""),
        ("Perhaps A?\n</think>\nAnswer: B", "Perhaps A?", "Answer: B"),
        ("A?</think> no, C?</think>B", "A?</think> no, C?", "B"),
        ("<think></think>B", "", "B"),
        ("[THINK]A.[/THINK]B", "A.", "B"),
        ("\u25c1think\u25b7A.\u25c1/think\u25b7B", "A.", "B"),
        ("<think>A</think>B\n<think>C</think>D", "AC", "BD"),
        ("B", "", "B"),
        ("a thinker thinks", "", "a thinker thinks"),
        ("Write `<think>` and `</think>` around it.", "", "Write `<think>` and `</think>` around it."),
    ],
)
def test_a_thought_is_no_part_of_the_answer(text, thought, answer):
    assert apart(text) == (thought, answer)


@pytest.mark.parametrize(("opening", "closing"), TAGS)
def test_the_tags_of_all_known_models_are_known(opening, closing):
    assert apart(f"{opening}A{closing}B") == ("A", "B")
    assert apart(f"A{closing}B") == ("A", "B")
    assert apart(f"{opening}A") == ("A", "")


THINK = "<|channel|>analysis<|message|>"
SAY = "<|start|>assistant<|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        (f"{THINK}A is too easy.<|end|>{SAY}Answer: B<|return|>", "A is too easy.", "Answer: B"),
        (f"<|start|>assistant{THINK}\nA?\n<|end|>\n{SAY}\nB", "A?", "B"),
        (f"{THINK}A?<|end|>{THINK}C?<|end|>{SAY}B", "A?C?", "B"),
        (f"{THINK}a first guess is B, but", "a first guess is B, but", ""),
        (f"{THINK}A?<|end|><|start|>assistant<|channel|>fin", "A?", ""),
        (f"{THINK}A?<|end|>", "A?", ""),
        ("<|channel|>anal", "", ""),
        ("<|channel|>final<|message|>B<|return|>", "", "B"),
        ("<|channel|>final <|constrain|>JSON<|message|>{}", "", "{}"),
        (f"Perhaps A?<|end|>{SAY}B", "Perhaps A?", "B"),
        ("Perhaps A?<|end|><|channel|>final<|message|>B", "Perhaps A?", "B"),
        (f"{THINK}A?{SAY}B", "A?", "B"),
        (f"{THINK}A?<|end|>{SAY}B<|return|>{SAY}", "A?", "B"),
        ('<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1}<|call|>', '{"x": 1}', ""),
        (f"{THINK}A?<|end|><|start|>assistant<|channel|>commentary<|message|>Let me see.<|end|>{SAY}B",
         "A?Let me see.", "B"),
        ("analysisA is too easy.assistantfinalAnswer: B", "A is too easy.", "Answer: B"),
        ("analysis of the answer: B", "", "analysis of the answer: B"),
        (f"It writes `{THINK}` first.", "", f"It writes `{THINK}` first."),
        (f"It writes {THINK} first, then more.", "", f"It writes {THINK} first, then more."),
        ("B<|end|>", "", "B<|end|>"),
        (f"{THINK}<think>A</think><|end|>{SAY}B", "<think>A</think>", "B"),
    ],
)  # fmt: skip
def test_of_an_answer_in_channels_the_final_one_is_the_answer(text, thought, answer):
    assert apart(text) == (thought, answer)
    assert "".join("".join(piece) for piece in split(text)) == text


QUOTED = [
    "Write <|channel|>final<|message|> before the answer.",
    f"An answer begins with {SAY}and a thought with {THINK}.",
    "<|channel|> begins the header of a message.",
    f"First {THINK}a thought<|end|>, then {SAY}the answer<|return|>, each with its marks.",
]


def test_a_whole_conversation_that_an_answer_quotes_is_its_text():
    text = f"```\n<|start|>user<|message|>1 + 1?<|end|>{SAY}2<|return|>\n```\nThat is a conversation."
    assert apart(text) == ("", text)


@pytest.mark.parametrize("text", QUOTED)
def test_marks_that_an_answer_quotes_are_its_text(text):
    assert apart(text) == ("", text)
    assert apart(f"{THINK}A?<|end|>{SAY}{text}<|return|>") == ("A?", text)


@pytest.mark.parametrize(
    "text",
    [
        "The mark <|end|> ends a message, and <|return|> the last one.",
        "The header <|channel|>final<|message|> begins it, <|start|> a turn.",
        "Some write <|message|> without <|channel|>.",
    ],
)
def test_marks_that_a_message_quotes_do_not_end_it(text):
    assert apart(f"<|channel|>final<|message|>{text}<|return|>") == ("", text)
    assert apart(f"{THINK}{text}<|end|>{SAY}B") == (text, "B")


MARKS = [f"<|{name}|>" for name in ("start", "end", "return", "call", "channel", "message", "constrain")]
PIECES = st.sampled_from(
    [
        *(tag for pair in TAGS[:2] for tag in pair),
        *(
            "A",
            " ",
            "\n",
            "`",
            "<think",
            "THINK",
            THINK,
            SAY,
            "assistant",
            "analysis",
            "final",
            "assistantfinal",
        ),
        *MARKS,
    ]
)


@given(
    st.lists(st.sampled_from([THINK, SAY, "<|end|>", "<|return|>", "A", " ", "`"]), max_size=12).map("".join)
)
def test_an_answer_in_channels_is_put_together_again_to_the_letter(text):
    assert "".join("".join(piece) for piece in split(text)) == text
    assert output_text({"output": with_thoughts(without_thoughts([message(text)]))}) == text


@given(st.lists(PIECES, max_size=12).map("".join))
def test_text_is_put_together_again_to_the_letter(text):
    parts = ["".join(piece) for piece in split(text)]
    assert "".join(parts) == text
    items = with_thoughts(without_thoughts([message(text)]))
    assert output_text({"output": items}) == text
    assert not reasoning_text({"output": items})


def test_what_is_no_text_stays_in_its_place():
    image = {"type": "image_url", "image_url": {"url": "u"}}
    item = message("<think>A</think>B")
    item["content"].insert(0, image)
    first, thought, last = without_thoughts([{"type": "function_call"}, item])[1:]
    assert (first["content"], thought["type"]) == ([image], "reasoning")
    assert output_text({"output": [last]}) == "B"


def test_endless_marks_are_no_endless_work():
    many = 100_000
    assert apart("<|channel|>" * many)[1] == "<|channel|>" * many
    assert apart(f"{THINK}{'<|channel|>final' * many}")[1] == ""
    assert apart(f"{THINK}A{' ' * many}<|end|>{' ' * many}{SAY}{' ' * many}B") == ("A", "B")


def test_endless_white_space_is_no_endless_work():
    text = "<think>" + " " * 2_000_000 + "</think>" + "\n" * 2_000_000 + "B"
    assert apart(text) == ("", "B")

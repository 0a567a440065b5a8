"""The four grading modes, as tables: text in, letter out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.termination import ends

from nemo_gym.verifiers.choices import choices_of, chosen, last_boxed

FRUIT = {"A": "apple pie", "B": "banana", "C": "cherry cake", "D": "acetic acid"}
MODES = ["strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md"]

STRICT = [
    (r"so \boxed{B}", "B"),
    (r"\boxed{ B }", "B"),
    (r"\boxed{A} no, \boxed{C}", "C"),
    (r"\boxed{\text{B}}", "B"),
    (r"\boxed{\text{ B }}", "B"),
    (r"\boxed{\text{\text{B}}}", "B"),
    (r"\boxed{\textbf{B}}", "B"),
    (r"\boxed{\mathrm{B}}", "B"),
    (r"\boxed{\mathbf{\text{B}}}", "B"),
    (r"\boxed{B: banana}", "B"),
    (r"\boxed{B) banana}", "B"),
    (r"\boxed{B. banana}", "B"),
    (r"\boxed{B - banana}", None),
    (r"\boxed{B-banana}", "B"),
    (r"\boxed{A-C}", None),
    (r"\boxed{A) B)}", None),
    (r"\boxed{b}", None),
    (r"\boxed{(B)}", None),
    (r"\boxed{B C}", None),
    (r"\boxed{banana}", None),
    (r"\boxed{E}", None),
    (r"\boxed{}", None),
    (r"\boxed{A} and then cut off \boxed{B", "A"),
    (r"\boxed{\frac{1}{2}}", None),
    (r"\boxed{B", None),
    ("Answer: B", None),
    ("B", None),
]

LENIENT_BOXED = [
    (r"\boxed{B}", "B"),
    (r"\boxed{banana}", "B"),
    (r"\boxed{\text{Banana}}", "B"),
    (r"\boxed{the  BANANA  split}", "B"),
    (r"\boxed{apple   pie}", "A"),
    (r"\boxed{apple pie or banana}", None),
    (r"\boxed{bananas}", None),
    (r"\boxed{pear}", None),
    (r"\boxed{A apple pie}", "A"),
    (r"\boxed{(B)}", "B"),
    (r"\boxed{(B) banana}", "B"),
    (r"\boxed{\text{Option B}}", "B"),
    (r"\boxed{(A) (B)}", None),
    (r"\boxed{b}", None),
    ("banana", None),
]

ANSWER_COLON = [
    ("Answer: B", "B"),
    ("answer:b", "B"),
    ("I think.\nANSWER:   C  \nfurther words", "C"),
    ("Answer: A\nAnswer: B", "A"),
    ("Answer: banana", "B"),
    ("answer: Cherry  Cake", "C"),
    (r"Answer: \text{B}", "B"),
    ("Answer: B banana", None),
    ("Answer: E", None),
    ("Answer:", None),
    ("The answer is B", None),
    (r"\boxed{B}", None),
]

ANSWER_COLON_MD = [
    ("Answer: B", "B"),
    ("**Answer:** B", "B"),
    ("**Answer**: B", "B"),
    ("__Answer:__ **B**", "B"),
    ("*Answer: `B`*", "B"),
    ("Answer: $B$", "B"),
    ("Final answer: (B)", "B"),
    ("Answer: B) banana", "B"),
    ("Answer: B.", "B"),
    ("Answer: b", "B"),
    ("Answer: b.", "B"),
    ("Answer: a banana is B", "B"),
    ("Answer: B because A is wrong", "B"),
    ("Answer: the right option is C", "C"),
    ("Answer: A is right", "A"),
    ("Answer: A banana", None),
    ("Answer: A apple pie", "A"),
    ("Answer: B) cherry cake", None),
    ("Answer: not A", None),
    ("Answer: A\nWait.\nAnswer: not A", None),
    ("Answer: B\nAnswer: not A", "B"),
    ("Answer: neither A nor B", None),
    ("Answer: it isn't B", None),
    ("Answer: rather than (B), option D", "D"),
    ("Answer: everything except C", None),
    ("Answer: A better one is D", "D"),
    ("Answer: not A but rather C", "C"),
    ("Answer: A\nOn reflection:\nAnswer: B", "B"),
    ("Answer: B\nAnswer: none of these", "B"),
    ("Answer: A, B", None),
    ("Answer: A and B", None),
    ("Answer: A or C", None),
    ("Answer: A / B", None),
    ("Answer: (A), (B), and (D)", None),
    ("Answer: **A** & **B**", None),
    ("Answer: A, B and A", None),
    ("Answer: B, B", "B"),
    ("Answer: C\nAnswer: A or B", "C"),
    (r"Answer: A or B. \boxed{C}", "C"),
    ("Answer\uff1a B", "B"),
    ("Answer: \uff22", "B"),
    ("Answer: \u0628", "B"),
    ("Answer: \u0623", "A"),
    ("Answer: \u062f", "D"),
    ("Answer: \u09ac", "B"),
    ("Answer: \u0985", "A"),
    ("Answer: \u0996", "B"),
    ("Answer: \u0628\u0623", None),
    ("Answer: \u0995\u09cd\u09b7", None),
    (r"Answer: \boxed{B}", "B"),
    (r"Answer: \text{B}", "B"),
    (r"no label, \boxed{D}", "D"),
    (r"Answer: unsure \boxed{E}", None),
    ("Answer: E", None),
    ("Answer: I don't know", None),
    ("Answer: I'm sure it is D", "D"),
    ("Answer:\n", None),
    ("Answer:\nB", "B"),
    ("**Answer:**\n\n**B**", "B"),
    ("### Answer:\n\nB) banana", "B"),
    ("Answer:\n\nAnswer: C", "C"),
    ("Answer:\nApple pie is sour, so C.", None),
    ("Answer: A, no wait. Answer: B", "B"),
    ("Answer: Answer: C", "C"),
    ('{"answer": "B", "reason": "A is sour"}', "B"),
    ("{'answer': 'B'}", "B"),
    ('"Answer" : "b"', "B"),
    ('{"answer": "banana"}', "B"),
    ("Answer: 'B'", "B"),
    ("Answer: banana", "B"),
    ("Answer: Cherry cake.", "C"),
    (r"\boxed{(B)}", "B"),
    (r"Answer: $\boxed{\textbf{(B)}}$", "B"),
    ("B", None),
    ("", None),
]


def cases(mode, table):
    return [
        pytest.param(mode, text, letter, id=f"{mode}-{number}") for number, (text, letter) in enumerate(table)
    ]


@pytest.mark.parametrize(
    ("mode", "text", "letter"),
    [
        *cases("strict_single_letter_boxed", STRICT),
        *cases("lenient_boxed", LENIENT_BOXED),
        *cases("lenient_answer_colon", ANSWER_COLON),
        *cases("lenient_answer_colon_md", ANSWER_COLON_MD),
    ],
)
def test_a_text_chooses_a_letter(mode, text, letter):
    assert chosen(mode, text, FRUIT) == letter


def test_two_options_in_a_box_are_ambiguous_even_when_one_lies_in_the_other():
    assert chosen("lenient_boxed", r"\boxed{acetic acid}", {"A": "acid", "B": "acetic acid"}) is None
    assert chosen("lenient_boxed", r"\boxed{42}", {"A": "4", "B": "42"}) == "B"


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("-4", None),
        ("4.5", None),
        ("1/4", None),
        ("4%", None),
        ("x^4", None),
        ("= 4", "A"),
        ("4.", "A"),
        ("14", None),
    ],
)
def test_a_number_among_the_options_is_no_part_of_another_number(text, letter):
    assert chosen("lenient_boxed", rf"\boxed{{{text}}}", {"A": "4", "B": "5"}) == letter


def test_a_pronoun_is_no_option():
    ten = {letter: f"text {letter}" for letter in "ABCDEFGHIJ"}
    assert chosen("lenient_answer_colon_md", "Answer: I would choose C", ten) == "C"
    assert chosen("lenient_answer_colon_md", "Answer: I", ten) == "I"
    assert chosen("lenient_answer_colon_md", "Answer: I.", ten) == "I"


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: vitamin C", "A"),
        ("Answer: Both A and B", "D"),
        ("Answer: B cells", "C"),
        ("Answer: A dog", "B"),
    ],
)
def test_the_whole_text_of_an_option_is_that_option_whatever_letters_are_in_it(text, letter):
    options = {"A": "vitamin C", "B": "a dog", "C": "B cells", "D": "both A and B"}
    assert chosen("lenient_answer_colon_md", text, options) == letter


@pytest.mark.parametrize("mode", ["lenient_answer_colon", "lenient_answer_colon_md"])
@pytest.mark.parametrize("said", ["caf\u00e9", "cafe\u0301"])
def test_the_text_of_an_option_is_known_however_its_accents_are_written(mode, said):
    assert chosen(mode, f"Answer: {said}", {"A": "cafe\u0301", "B": "cafe"}) == "A"
    assert chosen(mode, "Answer: 10\u00b2 m", {"A": "10\u00b2 m", "B": "10 m"}) == "A"


def test_an_option_text_that_two_letters_share_chooses_neither():
    assert chosen("lenient_answer_colon", "Answer: same", {"A": "same", "B": "Same"}) is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("R\u00e9ponse: B", "B"),
        ("**R\u00e9ponse** : B", "B"),
        ("Answer: C\nR\u00e9ponse: B", "C"),
        (r"R\u00e9ponse: ? \boxed{A}", "A"),
    ],
)
def test_the_rows_own_answer_prefix_comes_after_answer_and_before_the_box(text, letter):
    assert chosen("lenient_answer_colon_md", text, FRUIT, "R\u00e9ponse:") == letter


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{a{b}c}", "a{b}c"),
        (r"\boxed{\boxed{x}}", "x"),
        (r"\boxed{\{x\}}", r"\{x\}"),
        (r"\boxed{x} \boxed{y", "x"),
        (r"\boxed{}", ""),
        (r"\\boxed{x}", "x"),
        (r"} \boxed{x} {", "x"),
        ("none", None),
    ],
)
def test_the_last_whole_box_is_found_with_its_braces_matched(text, content):
    assert last_boxed(text) == content


def test_options_come_as_list_or_map_and_null_texts_are_none():
    assert choices_of([{"a": "x"}, {"B": None}, {"C": 3}]) == {"A": "x", "C": "3"}
    assert choices_of({"A": "x", "B": "y"}) == {"A": "x", "B": "y"}
    assert choices_of(None) == choices_of("AB") == {}


@pytest.mark.parametrize("mode", MODES)
@given(text=st.text() | st.text(alphabet="Answer: ABCD\\boxed{}text,*\n()"))
def test_whatever_a_model_says_only_a_letter_that_is_an_option_comes_out(mode, text):
    assert chosen(mode, text, FRUIT, "Antwort:") in {*FRUIT, None}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "piece", [r"\boxed{", "answer:", "A, ", "*", "answer: A, ", "{", r"\text{", "A or ", " "]
)
def test_long_texts_are_read_to_their_end(mode, piece):
    with ends():
        chosen(mode, piece * (30_000 // len(piece)), FRUIT, "Antwort:")

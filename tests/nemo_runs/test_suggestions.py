"""One way to say which name may have been meant."""

import pytest

from nemo_runs.suggestions import did_you_mean, nearest, reworded, suggestion


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("recal", "recall"), ("Max-Steps", "max_steps"), ("max_stps", "max_steps"), ("zzz", None), ("", None)],
)
def test_the_name_that_looks_most_alike_is_found_whatever_its_case_and_hyphens(typed, meant):
    assert nearest(typed, ["max_steps", "recall", "precision"]) == meant


def test_nothing_is_near_when_there_is_nothing():
    assert nearest("a", []) is None
    assert suggestion("a", []) == ""


@pytest.mark.parametrize(("cutoff", "meant"), [(0.0, "precision"), (1.0, None)])
def test_how_alike_names_must_be_is_the_callers_choice(cutoff, meant):
    assert nearest("prcsn", ["precision"], cutoff=cutoff) == meant


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), ""),
        ((None,), ""),
        (("a",), " (did you mean 'a'?)"),
        (("a", "b"), " (did you mean one of: 'a', 'b'?)"),
        (("a", "b", "c", "d"), ""),
    ],
)
def test_a_suggestion_is_a_question_in_parentheses(names, said):
    assert did_you_mean(*names) == said


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("No such option '--x'. Did you mean '--y'?", "No such option '--x' (did you mean '--y'?)"),
        (
            "No such option '-x'. (Did you mean one of: '-y', '-z'?)",
            "'-x' (did you mean one of: '-y', '-z'?)",
        ),
        ("No such option '--x'.", "No such option '--x'."),
    ],
)
def test_a_suggestion_of_the_command_line_library_reads_the_same(theirs, ours):
    assert reworded(theirs).endswith(ours)

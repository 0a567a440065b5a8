"""The shell decides about a chain as its model does: both are fed every state, marker and budget."""

import itertools
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests import chain_decision as model
from tests.chain_decision import Spent

import nemo_gym
import nemo_slurm
from nemo_gym.chain.budget import Budget
from nemo_gym.chain.run_end import FULL_DISKS, Marker, Requester, RunEnd
from nemo_gym.rollouts.collect.exit_report import ExitReport
from nemo_slurm.states import read_state, table

SHELL = Path(nemo_gym.__file__).parent / "shell"
INVENTED = ["HIBERNATED", "COMPLETED_NOT", "X", "TIMEOUT2", "timeout", "CANCELLED by", "CANCELLED by root"]
"""Texts that no scheduler says today."""
FRESH = Spent(retries=0, walltime=0, links_without_progress=0)
SAMPLE = ["", "COMPLETED", "CANCELLED by 1000", "PREEMPTED", "FAILED", "RUNNING", "HIBERNATED"]
"""One state of each meaning, and nothing."""


@pytest.fixture
def ask(tmp_path):
    """Lets the shell's functions answer: one record of words in, one line out."""
    (tmp_path / "states.tsv").write_bytes((Path(nemo_slurm.__file__).parent / "states.tsv").read_bytes())
    sources = "".join(f". {SHELL}/{part}.sh\n" for part in ("header", "decide", "chain_facts"))
    ready = f"GYM_JOB_DIR={tmp_path} GYM_SEALED={tmp_path}\n{sources}"

    def answers(names, records, then):
        loop = f"while IFS=$'\\x1f' read -r {' '.join(names)} _end; do {then}; done"
        text = "".join("\x1f".join([*record, "."]) + "\n" for record in records)
        done = subprocess.run(
            ["bash", "-c", ready + loop], input=text, capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    return answers


def texts():
    """Every known state as schedulers write it: whole, by somebody, cut after each letter; invented ones."""
    for name in table():
        yield name
        yield f"{name} by 1000"
        yield f"  {name}+ "
        yield from (f"{name[:length]}+" for length in range(1, len(name)))
    yield from INVENTED
    yield from (
        "",
        "   ",
        "+",
        "CANCELLED by 0",
        "CANCELLED+ by 007",
        "NODE_FAIL BY 3",
        "TIMEOUT FAILED",
        "É",
    )


def test_both_read_every_state_known_cut_and_invented_alike(ask):
    cases = list(texts())
    said = ask(
        ["text"],
        [[text] for text in cases],
        'gym_read_state "$text"; printf "%s|%s|%s|%s|%s\\n" '
        '"$gym_s_name" "$gym_s_meaning" "$gym_s_reason" "$gym_s_author" "$gym_s_known"',
    )
    expected = []
    for text in cases:
        state = read_state(text)
        if state is None:
            expected.append("||||yes")
        else:
            author = "" if state.author is None else state.author
            known = "yes" if state.known else ""
            expected.append(f"{state.name}|{state.meaning}|{state.reason}|{author}|{known}")
    assert said == expected
    assert len(cases) > 300


FACTS = "first marker complete status asked hopeless cancelled same full_disks undecided owner"
NAMES = [f"gym_p_{name}" for name in FACTS.split()] + [
    *("gym_spent_retries", "gym_spent_walltime", "gym_spent_idle"),
    *("GYM_MAX_RETRIES", "GYM_MAX_WALLTIME", "GYM_MAX_LINKS_WITHOUT_PROGRESS", "GYM_RESUMES", "gym_rows"),
    *("looks", "text"),
]
MARKERS = [None] + [
    Marker(complete=complete, exit_status=status, asked=asked, hopeless=hopeless)
    for complete, status, asked, hopeless in itertools.product(
        (False, True), (0, 1, 75, 76, 137), Requester, (None, 'run.limit: "x" \\ is wrong')
    )
]
FULL = [replace(MARKERS[1], full_disks=number) for number in (1, FULL_DISKS - 1, FULL_DISKS, 12)]
FULL += [replace(marker, undecided=True) for marker in FULL]
FEW = [None, MARKERS[1], *FULL, *(replace(MARKERS[1], exit_status=75, asked=asked) for asked in Requester)]


def few_cases():
    """Every state with every kind of marker and none, at one budget."""
    for state, marker in itertools.product(["", *table(), *INVENTED], [*FEW, *MARKERS]):
        yield state, marker, False, False, FRESH, Budget(), 0


def cases():
    """Predecessors with what was spent and what may be."""
    for state, marker, ours, same in itertools.product(
        ["", *table(), *INVENTED], FEW, (False, True), (False, True)
    ):
        yield state, marker, ours, same, FRESH, Budget(), 0
    for state, marker, same in itertools.product(SAMPLE, MARKERS, (False, True)):
        yield state, marker, False, same, FRESH, Budget(), 5
    spent = [
        Spent(retries=r, walltime=w, links_without_progress=i)
        for r in (2, 3)
        for w in (59, 90061)
        for i in (4, 5)
    ]
    budgets = [
        Budget(max_links_without_progress=5),
        Budget(max_retries=0),
        Budget(max_walltime=60, max_links_without_progress=None),
    ]
    for state, marker, used, budget in itertools.product(
        SAMPLE, FEW, spent, [*budgets, Budget(max_walltime=90061)]
    ):
        yield state, marker, False, False, used, budget, 6
    for state, marker, same, rows in itertools.product(SAMPLE, FEW, (False, True), (0, 7)):
        yield state, marker, False, same, replace(FRESH, rows=rows), Budget(resumes=False), 0
    for author, marker, owner in itertools.product((0, 7, 1000), FEW, (None, 0, 1000)):
        yield f"CANCELLED by {author}", marker, False, False, FRESH, Budget(), 0, owner


def record(state, marker, ours, same, spent, budget, looks, owner=1000):
    """One case as the shell's variables."""

    def flag(on):
        return "yes" if on else ""

    shown = marker or Marker(complete=False, exit_status=1, asked=Requester.NOBODY)
    limits = [budget.max_retries, budget.max_walltime, budget.max_links_without_progress]
    numbers = [spent.retries, spent.walltime, spent.links_without_progress]
    return [
        "",
        flag(marker),
        flag(shown.complete),
        str(shown.exit_status),
        shown.asked.value,
        shown.hopeless or "",
        flag(ours),
        flag(same),
        str(shown.full_disks),
        flag(shown.undecided),
        "" if owner is None else str(owner),
        *map(str, numbers),
        *("" if limit is None else str(limit) for limit in limits),
        flag(budget.resumes),
        str(spent.rows),
        str(looks),
        state,
    ]


@pytest.mark.parametrize("some", [few_cases, pytest.param(cases, marks=pytest.mark.slow)])
def test_both_decide_every_case_alike_with_the_same_words(ask, some):
    found = list(some())
    said = ask(
        NAMES,
        [record(*case) for case in found],
        # a text is read once for the cases that follow with the same one: what it says stays
        '[[ -n ${read+x} && $text == "$read" ]] || { gym_read_state "$text"; read=$text; }; '
        'gym_decide; again=no; ! gym_look_again "$looks" || again=yes; '
        'printf "%s|%s|%s|%s|%s\\n" "$gym_action" "$gym_fate" "${gym_counts:-no}" "$again" "$gym_why"',
    )
    assert len(said) == len(found) > 2000
    for answer, case in zip(said, found, strict=True):
        state, marker, ours, same, spent, budget, looks, owner = (*case, 1000)[:8]
        predecessor = RunEnd(
            marker=marker,
            scheduler=read_state(state),
            cancelled_by_us=ours,
            same_job=same,
            owner=owner,
        )
        want = model.decide(predecessor, spent, budget)
        again = "yes" if model.look_again(predecessor, looks=looks) else "no"
        counts = "yes" if want.counts_retry else "no"
        assert answer == f"{want.action}|{want.chain}|{counts}|{again}|{want.reason}", case


def test_both_start_the_first_job_of_a_chain(ask):
    first = [
        "yes",
        "",
        "",
        "1",
        "nobody",
        "",
        "",
        "",
        "0",
        "",
        "1000",
        "0",
        "0",
        "0",
        "3",
        "",
        "5",
        "yes",
        "0",
        "0",
        "",
    ]
    said = ask(
        NAMES, [first], 'gym_read_state ""; gym_decide; echo "$gym_action|$gym_fate|$gym_counts|$gym_why"'
    )
    want = model.decide(None, FRESH, Budget())
    assert said == [f"{want.action}|{want.chain}||{want.reason}"]


def test_the_limits_are_the_same_numbers():
    text = (SHELL / "decide.sh").read_text()
    assert f"gym_looks_allowed={model.LOOKS}\n" in text
    assert f"gym_full_disks_allowed={FULL_DISKS}\n" in text


COMPLETE = ExitReport("complete", 0, 5, 5, 2, None)
DRAINED = ExitReport("drained", 75, 5, 3, 1, None)
HOPELESS = ExitReport("failed", 1, 0, 0, 0, 'run.x: "a" is\nno \\ path; ü 😀, write "b"')
WORDS = [
    # collected, end marker, drain file -> marker
    (None, "", "", None),
    (None, "ended 0 none", "", Marker(complete=False, exit_status=0, asked=Requester.NOBODY)),
    (None, "ended 3 none", "", Marker(complete=False, exit_status=3, asked=Requester.NOBODY)),
    (None, "abandoned 1 none", "", Marker(complete=False, exit_status=1, asked=Requester.NOBODY)),
    (None, "damaged", "", None),
    (COMPLETE, "", "", Marker(complete=True, exit_status=0, asked=Requester.NOBODY)),
    (COMPLETE, "stopped 0 signal", "signal", Marker(complete=True, exit_status=0, asked=Requester.TERM)),
    (DRAINED, "", "walltime", Marker(complete=False, exit_status=75, asked=Requester.EARLY)),
    (DRAINED, "", "signal", Marker(complete=False, exit_status=75, asked=Requester.TERM)),
    (
        DRAINED,
        "drained 75 walltime",
        "walltime",
        Marker(complete=False, exit_status=75, asked=Requester.EARLY),
    ),
    (DRAINED, "drained 75 signal", "signal", Marker(complete=False, exit_status=75, asked=Requester.EARLY)),
    (DRAINED, "stopped 75 signal", "signal", Marker(complete=False, exit_status=75, asked=Requester.TERM)),
    (DRAINED, "stopped 75 cancel", "cancel", Marker(complete=False, exit_status=75, asked=Requester.CANCEL)),
    (DRAINED, "", "cancel", Marker(complete=False, exit_status=75, asked=Requester.CANCEL)),
    (DRAINED, "drained 75 person", "Ada L.", Marker(complete=False, exit_status=75, asked=Requester.PERSON)),
    (DRAINED, "drained 75 me", "me", Marker(complete=False, exit_status=75, asked=Requester.PERSON)),
    (DRAINED, "", "Ada L. (on call)", Marker(complete=False, exit_status=75, asked=Requester.PERSON)),
    (
        DRAINED,
        "stopped 75 continued",
        "continued",
        Marker(complete=False, exit_status=75, asked=Requester.NOBODY),
    ),
    (
        DRAINED,
        "service_died 1 none",
        "service_died",
        Marker(complete=False, exit_status=1, asked=Requester.NOBODY),
    ),
    (
        HOPELESS,
        "ended 1 none",
        "",
        Marker(
            complete=False,
            exit_status=1,
            asked=Requester.NOBODY,
            hopeless='run.x: "a" is no \\ path; ü 😀, write "b"',
        ),
    ),
]


@pytest.mark.parametrize("form", [ExitReport.lines, ExitReport.line])
@pytest.mark.parametrize(("collected", "end", "drain", "marker"), WORDS)
def test_the_last_word_of_a_run_is_read_as_it_was_meant(ask, tmp_path, collected, end, drain, marker, form):
    link = tmp_path / "link"
    link.mkdir()
    for name, text in (
        ("end", end and f"{end}\nwhy"),
        ("drain", drain),
        ("collected", collected and form(collected)),
    ):
        if text:
            (link / name).write_text(text + "\n")
    said = ask(
        ["link"],
        [[str(link)]],
        "gym_p_marker='' gym_p_complete='' gym_p_status=1 gym_p_asked=nobody gym_p_hopeless=''; "
        'gym_read_marker "$link"; '
        'echo "$gym_p_marker|$gym_p_complete|$gym_p_status|$gym_p_asked|$gym_p_hopeless"',
    )
    if marker is None:
        assert said[0].startswith("||")
    else:
        complete = "yes" if marker.complete else ""
        words = f"yes|{complete}|{marker.exit_status}|{marker.asked}|{marker.hopeless or ''}"
        assert said == [words]
    if end.count(" ") == 2:
        outcome, _, who = end.split()
        assert marker.asked is Requester.of(outcome, who)
    if collected:
        assert json.loads(collected.line())["status"] == collected.status

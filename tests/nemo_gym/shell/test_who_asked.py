"""Who asked a job to stop, as its script tells it: the drain file, a signal near its limit, one by hand."""

import subprocess
from importlib import resources

import pytest

HEADER = resources.files("nemo_gym") / "shell" / "header.sh"


def told(tmp_path, words, *, drain=None):
    if drain is not None:
        (tmp_path / "drain").write_text(drain)
    script = (
        f'set -u; gym_link={tmp_path}; {words}; . "{HEADER}"; gym_began=; '
        'gym_who; gym_person; printf "%s %s" "$gym_asker" "$gym_asker_name"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("words", "drain", "who"),
    [
        ("gym_asked=", None, "none"),
        ("gym_asked=drain GYM_WALLTIME=100 GYM_DRAIN_LEAD=20 SECONDS=30", None, "walltime"),
        ("gym_asked=drain GYM_WALLTIME=100 GYM_DRAIN_LEAD=20 SECONDS=79", None, "walltime"),
        ("gym_asked=drain GYM_WALLTIME=3600 GYM_DRAIN_LEAD=120 SECONDS=30", None, "signal"),
        ("gym_asked=drain GYM_WALLTIME= GYM_DRAIN_LEAD= SECONDS=30", None, "walltime"),
        ("gym_asked=stop GYM_WALLTIME=100 GYM_DRAIN_LEAD=20", None, "signal"),
        ("gym_asked=drain", "walltime\n", "walltime"),
        ("gym_asked=drain", "cancel\n", "cancel"),
        ("gym_asked=drain", "service_died", "service_died"),
        ("gym_asked=drain", "continued\n", "continued"),
        ("gym_asked=drain", "me\n", "person"),
        ("gym_asked=drain", "Ada L. (on call), see #12\n", "person"),
        ("gym_asked=drain", "", "person"),
    ],
)
def test_one_word_says_who_asked(tmp_path, words, drain, who):
    assert told(tmp_path, words, drain=drain).split()[0] == who


@pytest.mark.parametrize(
    ("drain", "name"),
    [("Ada L.\nmore", "Ada L."), ("\x1b[31mred\x07", "[31mred"), ("", "somebody"), ("x" * 200, "x" * 60)],
)
def test_a_person_is_named_in_one_printable_line(tmp_path, drain, name):
    assert told(tmp_path, "gym_asked=drain", drain=drain).partition(" ")[2] == name

"""What is said of a wrong command line, where click itself has no suggestion."""

import click
import pytest

from nemo_cli.program import Program


@click.group()
def tool() -> None:
    """A program whose groups are click's own, as packages of others have them."""


@tool.command()
@click.argument("name", type=click.Choice(["trl", "unsloth"]))
@click.option("--base-url")
@click.option("--limit", type=int)
@click.option("--list/--no-list")
@click.option("--timeout")
def run(**_given: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("start", "No such command 'start' (did you mean 'run'?). See 'tool --help'."),
        ("rnu", "No such command 'rnu' (did you mean 'run'?). See 'tool --help'."),
        ("xyz", "No such command 'xyz'. See 'tool --help'."),
        ("run tlr", "'tlr' is not one of 'trl', 'unsloth' (did you mean 'trl'?). See 'tool run --help'."),
        ("run xyz", "'xyz' is not one of 'trl', 'unsloth'. See 'tool run --help'."),
        ("run trl -b x", "No such option '-b' (did you mean '--base-url'?). See"),
        ("run trl -l", "No such option '-l' (did you mean one of: '--limit', '--list'?). See"),
        ("run --limit", "Option '--limit' requires an argument. See 'tool run --help'."),
        ("run trl -x", "No such option '-x'. See"),
        ("run trl --timout 5", "No such option '--timout' (did you mean '--timeout'?). See"),
        ("run trl base_url x", "Got unexpected extra arguments (base_url x) (did you mean '--base-url'?)."),
        ("run trl other", "Got unexpected extra argument (other). See 'tool run --help'."),
        ("run trl --limit x", "'--limit': 'x' is not a whole number. See 'tool run --help'."),
    ],
)
def test_what_may_have_been_meant_is_named(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Program("tool", tool, "TOOL_DEBUG", lambda _error: None).status(words.split()) == 2
    assert said in capsys.readouterr().err

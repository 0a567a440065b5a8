"""What a benchmark says of the program that runs it, and of the results that this writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from nemo_gym.errors import ConfigError
from nemo_runs.errors import SecretReferenceError
from nemo_runs.secret_refs import looks_secret, parse_reference, resolve_host

TYPE = "command"
"""The type of the agent that gives a command's answers, and of the verifier that gives their grades."""
PLACES = ("model", "base_url", "outputs")
"""Names in braces in ``env`` that the run fills in when it starts the command."""
Text = Annotated[str, Field(min_length=1)]


class ResultsMapping(BaseModel):
    """Where results are in what the command writes; places are dotted paths (``scores.match.value``)."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    path: Text
    """The file, relative to the outputs folder: JSON, or JSON lines where it ends in ``.jsonl``. ``*`` stands
    for any text of one folder level; of several files the newest counts."""
    score: Text | None = None
    """The place of the command's own score. Without samples it is the result."""
    samples: str | None = None
    """The place of the list of samples; empty: the whole file is that list."""
    id: Text = "id"
    """Within a sample: what names its question. Samples of one question are its repeats."""
    input: Text | None = None
    """Within a sample: the question, a text or messages."""
    expected: Text | None = None
    """Within a sample: the right answer."""
    answer: Text | None = None
    """Within a sample: the answer of the model."""
    reward: Text = "score"
    """Within a sample: its grade, a number, a truth value, or a text that ``values`` has."""
    error: Text | None = None
    """Within a sample: why it has no result; where something is there, the sample has failed."""
    input_tokens: Text | None = None
    """Within a sample: tokens of the questions."""
    output_tokens: Text | None = None
    """Within a sample: tokens of the answers."""
    metrics: dict[str, Text] = Field(default_factory=dict)
    """Within a sample: further numbers by name."""
    values: dict[str, float] = Field(default_factory=dict)
    """Grades that are texts, and the reward of each: ``{C: 1, I: 0}``."""
    best: float = Field(1, gt=0, allow_inf_nan=False)
    """The number that becomes reward 1, as 100 where scores are percent."""

    @model_validator(mode="after")
    def _has_something_to_read(self) -> Self:
        if self.samples is None and self.score is None:
            raise ValueError("needs samples or score, or nothing would be read")
        outside = [name for name, reward in self.values.items() if not 0 <= reward <= 1]
        if outside:
            raise ValueError(f"values: the reward of {outside[0]} is not from 0 to 1")
        if Path(self.path).is_absolute() or ".." in Path(self.path).parts:
            raise ValueError("path must stay within the outputs folder")
        return self


class CommandOptions(BaseModel):
    """A program that asks the model and grades, as one benchmark."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    argv: list[Text] | None = Field(default=None, min_length=1)
    """The program and its arguments; no shell reads them."""
    shell: Text | None = None
    """In place of ``argv``: a text for bash."""
    resume_args: list[Text] | None = None
    """Arguments that are added where an earlier start was ended: the command goes on in the same outputs
    folder. Null: it starts over, in another one."""
    limit_args: list[Text] | None = None
    """Arguments that are added where the run has a ``limit``; ``{limit}`` is filled in. Null: a limit is
    refused."""
    working_folder: Path | None = None
    """Where it starts; null: the folder of the config that says this."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables that it gets besides those of this process: texts, in which ``{model}``, ``{base_url}`` and
    ``{outputs}`` are filled in, or ``host:VAR`` for a secret."""
    files: list[Path] = Field(default_factory=list)
    """Files that the results depend on: where one is changed, nothing is resumed."""
    stop_signal: Literal["TERM", "INT"] = "TERM"
    """The signal by which it is asked to end, ahead of a time limit and after Ctrl-C."""
    results: ResultsMapping

    @field_validator("env")
    @classmethod
    def _names_places(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if looks_secret(name) and not text.startswith("host:"):
                raise ValueError(
                    f"variable {name}: a secret is not written into a config; write host:VARIABLE"
                )
            try:
                text.format(**dict.fromkeys(PLACES, ""))
            except (LookupError, ValueError, AttributeError, TypeError):
                known = ", ".join(f"{{{place}}}" for place in PLACES)
                raise ValueError(
                    f"variable {name}: known places are {known}; other braces are doubled"
                ) from None
        return value

    @model_validator(mode="after")
    def _is_one_command(self) -> Self:
        if (self.argv is None) == (self.shell is None):
            raise ValueError(
                "needs argv (a program and its arguments) or shell (a text for bash), one of them"
            )
        return self

    def started(self, *, resumed: bool, limit: int | None) -> list[str]:
        """Program and arguments of one start."""
        words = self.argv or ["bash", "-c", str(self.shell), "bash"]
        more = [word.replace("{limit}", str(limit)) for word in self.limit_args or ()] if limit else []
        return [*words, *more, *((self.resume_args or []) if resumed else ())]


def variables(
    env: Mapping[str, str], places: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """What ``env`` sets: secrets of this process, and texts with what their places stand for.

    Raises `nemo_gym.errors.ConfigError` for a variable that is not set here.
    """
    found = {}
    for name, value in env.items():
        where = f"benchmark.command.env.{name}"
        try:
            reference = parse_reference(value, where=where)
            if reference.kind == "host":
                found[name] = resolve_host(reference, environ, where=where).reveal()
            else:
                found[name] = reference.text.format(**places)
        except SecretReferenceError as error:
            raise ConfigError(f"{error}.") from None
    return found

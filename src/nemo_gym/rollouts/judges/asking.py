"""What the verifiers that ask a judge have in common: the request, and reading the reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.run_config.prompts import check_template, fill
from nemo_gym.types import (
    Episode,
    Policy,
    Row,
    Task,
    answer_end,
    conversation_of_rollout,
    output_text,
)

OF_EVERY_ROLLOUT = ("conversation",)
"""Places that every rollout fills, unless its row has a field of that name: all that was said."""
REPLY_KEPT = 4000
"""Characters of a judge's reply that a row keeps, counted from its end."""


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """What a judge said."""

    text: str
    end: str

    @property
    def kept(self) -> str:
        """What a row keeps of it."""
        return self.text[-REPLY_KEPT:]


class JudgePrompt:
    """A prompt with places for the fields of the row and for names that the verifier fills itself."""

    def __init__(self, user: str, system: str | None, own: Mapping[str, str], *, where: str) -> None:
        try:
            self._user = check_template(user)
            self._system = None if system is None else check_template(system)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from error
        names = [name for _, name in self._user if name is not None]
        missing = [name for name in own if name not in names]
        if "answer" in missing and "conversation" in names:
            missing.remove("answer")  # the last thing that was said
        if missing:
            raise ConfigError(f"{where}: it has no {{{missing[0]}}}, {own[missing[0]]}")
        given = {*own, *OF_EVERY_ROLLOUT}
        self.fields = list(
            dict.fromkeys(
                name
                for _, name in [*self._user, *(self._system or [])]
                if name is not None and name not in given
            )
        )

    def problem(self, row: Row) -> str | None:
        """What a row lacks."""
        missing = [name for name in self.fields if row.get(name) is None]
        return f"no '{missing[0]}', which the judge's prompt needs" if missing else None

    def messages(self, values: Mapping[str, Any]) -> list[Row]:
        """The messages of one request."""
        found: list[Row] = []
        if self._system is not None:
            found.append({"role": "system", "content": fill(self._system, values)})
        found.append({"role": "user", "content": fill(self._user, values)})
        return found


def values_of(task: Task, episode: Episode) -> dict[str, Any]:
    """What the places of a prompt stand for: fields of the row, and what `OF_EVERY_ROLLOUT` names."""
    said = [
        f"{message['role'].capitalize()}: {message['content']}"
        for message in conversation_of_rollout(task, episode)
    ]
    return {"conversation": "\n\n".join(said), **task.row}


async def ask(judge: Policy, messages: list[Row], params: Mapping[str, Any]) -> JudgeReply:
    """Ask once. Raises what the policy client raises."""
    answer = await judge.respond({**params, "input": messages})
    return JudgeReply(output_text(answer), answer_end(answer))


def chosen_judge(models: Mapping[str, Policy], name: str) -> Policy:
    """The judge model of that name; raises `ConfigError`, a phrase with the remedy."""
    if name not in models:
        known = f"judge_models has {', '.join(models)}" if models else "judge_models is empty"
        raise ConfigError(
            f"model: there is no judge model '{name}': {known}; "
            f"+judge_models.{name}={{model: NAME, base_url: URL}} adds it"
        )
    return models[name]

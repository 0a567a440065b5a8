"""From a row to what is asked of the model: messages, tools and sampling, as parameters of one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from nemo_gym.errors import DataError
from nemo_gym.rollouts.data.conversations import conversation_of, turns_of, with_system
from nemo_gym.rollouts.data.examples import Examples
from nemo_gym.rollouts.data.images_in_place import (
    MARK,
    RowImages,
    conversation_with_images,
    text_with_images,
)
from nemo_gym.rollouts.policy.apis import request_body
from nemo_gym.rollouts.run_config.prompts import CannotFillError, Template, template
from nemo_gym.rollouts.run_config.row_params import of_the_run
from nemo_gym.types import Row
from nemo_runs import strict_json

if TYPE_CHECKING:
    from nemo_gym.rollouts.run_config.prompt_schema import PromptConfig
    from nemo_gym.rollouts.run_config.schema import RunConfig

_CONVERSATIONS = ("messages", "conversations", "prompt", "input")
"""Where data of other tools have the conversation."""
_PLANNED_ALREADY = (
    "has a key that begins with _ng_, so it is not a dataset row but a planned or finished rollout"
)

RequestMaker = Callable[[int, Row], dict[str, Any]]
"""Gives the request parameters of a task from its index and its row; raises `DataError` with a phrase."""


def request_maker(config: RunConfig, folder: Path, examples: Examples | None) -> RequestMaker:
    """Make the function that gives a row's request parameters: input, tools and sampling.

    ``folder`` is where the row's images are, ``examples`` what the prompt's examples are drawn from.
    """
    prompt = config.benchmark.prompt
    messages = _own_input if prompt is None else _Prompt(prompt, folder, examples).messages
    tools = None if prompt is None else prompt.tools
    plain = prompt is None or (prompt.user is not None and not prompt.images and not prompt.tools)
    sampling = config.responses_create_params.given()

    def fill_in(task_index: int, row: Row) -> dict[str, Any]:
        for key in row:
            if key[:4] == "_ng_":
                raise DataError(_PLANNED_ALREADY)
        own = row.get("responses_create_params")
        own = {} if own is None else own
        if not isinstance(own, dict):
            raise DataError("responses_create_params must be an object")
        if own and (problem := of_the_run(own, config.policy_model_name)):
            raise DataError(f"its responses_create_params cannot be used: {problem}")
        params = {**own, "input": messages(task_index, row, own), **sampling}
        if tools is not None and row.get(tools) not in (None, "", []):
            params["tools"] = _tools_of(row[tools], tools)
        if (own or not plain) and (problem := _unusable(config, params)):
            whose = "its responses_create_params make" if own else "it makes"
            raise DataError(f"{whose} no request: {problem}")
        return params

    return fill_in


def _unusable(config: RunConfig, params: Mapping[str, Any]) -> str | None:
    """Why no request can be made of parameters that a row brings along."""
    seed = params.get("seed")
    if config.num_repeats_add_seed and (isinstance(seed, bool) or not isinstance(seed, int | None)):
        return f"seed is {seed!r}, to which no repeat's number can be added"
    try:
        orjson.dumps(request_body(config.policy_api, "", params))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return str(error).rstrip(".")
    return None


class _Prompt:
    """The prompt of a benchmark, its templates read once."""

    def __init__(self, prompt: PromptConfig, folder: Path, examples: Examples | None) -> None:
        self._conversation = prompt.conversation
        self._turns = prompt.turns
        self._images = prompt.images or ()
        self._in_text = bool(prompt.images_in_text)
        self._folder = folder
        self._examples = examples
        self._user = None if prompt.user is None else template(prompt.user, prompt.syntax)
        self._system = None if prompt.system is None else template(prompt.system, prompt.syntax)
        shown = prompt.examples
        self._answer = (
            None if shown is None else template(shown.answer_template(prompt.syntax), prompt.syntax)
        )
        self._in_one_message = shown is not None and shown.in_one_message

    def messages(self, task_index: int, row: Row, own: Mapping[str, Any]) -> Any:
        """The messages for one row; `DataError` with a phrase."""
        if "input" in own:
            raise DataError(
                "has its own responses_create_params.input, but the benchmark has a prompt; drop one"
            )
        try:
            system = None if self._system is None else self._system.fill(row)
            if self._turns is not None:
                first = turns_of(row, self._turns)[0]
                return with_system([{"role": "user", "content": first}], system)
            if self._user is None:
                return self._of_conversation(row, system)
            question = self._content(self._user, row)
            shown = [] if self._examples is None else self._examples.of_task(task_index)
            pairs = [self._solved(number, example) for number, example in enumerate(shown, 1)]
        except CannotFillError as error:
            raise DataError(str(error)) from None
        start = [] if system is None else [{"role": "system", "content": system}]
        if self._in_one_message:
            return [*start, {"role": "user", "content": _one_text(pairs, question)}]
        for asked, answer in pairs:
            start += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
        return [*start, {"role": "user", "content": question}]

    def _of_conversation(self, row: Row, system: str | None) -> Any:
        name = str(self._conversation)
        if row.get(name) is None:
            raise DataError(f"the prompt needs the conversation in {name}, which this row lacks")
        messages = conversation_of(row[name], name)
        images = RowImages(row, self._images, self._folder) if self._images else None
        return with_system(conversation_with_images(messages, name, images, self._folder), system)

    def _content(self, user: Template, row: Row) -> Any:
        text = user.fill(row)
        if not self._images:
            return text
        images = RowImages(row, self._images, self._folder)
        if self._in_text and MARK.search(text):
            try:
                parts = text_with_images(text, images)
            except DataError as error:
                raise DataError(f"the text of the user cannot be asked: {error}") from None
        else:
            parts = [{"type": "input_text", "text": text}]
        left = images.left()
        return [*left, *parts] if left or len(parts) > 1 else text

    def _solved(self, number: int, example: Row) -> tuple[Any, str]:
        """Question and answer of one example."""
        if self._user is None or self._answer is None:
            raise AssertionError("only a prompt with a user's template has examples")
        try:
            return self._content(self._user, example), self._answer.fill(example)
        except (CannotFillError, DataError) as error:
            raise CannotFillError(f"example {number} cannot be shown: {error}") from None


def _one_text(pairs: list[tuple[Any, str]], question: Any) -> Any:
    """Examples and question as one text, a blank line between them; images stay parts of the message."""
    blocks = [(asked, answer) for asked, answer in pairs]
    if all(isinstance(asked, str) for asked, _ in blocks) and isinstance(question, str):
        return "\n\n".join([*(_joined(asked, answer) for asked, answer in blocks), question])
    parts: list[Any] = []
    for asked, answer in [*blocks, (question, None)]:
        of_one = asked if isinstance(asked, list) else [{"type": "input_text", "text": asked}]
        last = of_one[-1]["text"]
        text = last if answer is None else _joined(last, answer)
        parts += [*of_one[:-1], {"type": "input_text", "text": text}]
    return parts


def _joined(asked: str, answer: str) -> str:
    return f"{asked}{'' if asked[-1:].isspace() else ' '}{answer}"


def _tools_of(value: Any, name: str) -> Any:
    """The tools in a field: a list, or its JSON."""
    if isinstance(value, str):
        try:
            value = strict_json.loads(value)
        except ValueError as error:
            raise DataError(
                f"the field {name} must hold a list of tools; its text is not JSON: {error}"
            ) from None
    if not isinstance(value, list):
        raise DataError(f"the field {name} must hold a list of tools")
    return value


def _own_input(_task_index: int, row: Row, own: Mapping[str, Any]) -> Any:
    messages = own.get("input")
    is_list = isinstance(messages, list) and all(isinstance(message, dict) for message in messages)
    if not messages or not (isinstance(messages, str) or is_list):
        found = next((key for key in _CONVERSATIONS if key in row), None)
        hint = f"; name it: benchmark.prompt.conversation={found}" if found else ""
        raise DataError(
            f"lacks responses_create_params.input (text or messages), and the benchmark has no prompt{hint}"
        )
    return messages

"""Writing texts and conversations with a model's tokenizer and chat template, and marking what is learned."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from nemo_engines.data import messages as checked
from nemo_engines.data.dropped_text import dropped
from nemo_engines.data.messages import Message
from nemo_engines.errors import BadSpecError
from nemo_engines.spec import EngineSpec

Row = dict[str, Any]
_TRIED = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
_OTHER = "\ue000\ue001"
"""A text that no row has."""


class Written(NamedTuple):
    """A conversation as tokens, each with whether it may be learned."""

    ids: list[int]
    learned: list[bool]


class TemplateWriter:
    """Writes rows for one model; `ValueError` with a phrase for a row that the template cannot write.

    ``assistant_only``: of conversations only the assistant's messages are learned. ``template`` replaces the
    tokenizer's own.
    """

    def __init__(self, tokenizer: Any, *, assistant_only: bool = False, template: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._assistant_only = assistant_only
        self._template = template
        self._special: frozenset[int] | None = None

    def text(self, text: str) -> list[int]:
        """The tokens of a text, with those that the tokenizer puts around any text and that it lacks."""
        ids = list(self._tokenizer(text=text)["input_ids"])
        own = list(self._tokenizer(text=text, add_special_tokens=False)["input_ids"])
        start, end = self._tokenizer.bos_token_id, self._tokenizer.eos_token_id
        if ids[:2] == [start] * 2 and own[:1] == [start] and own[:2] != [start] * 2:
            ids = ids[1:]
        if ids[-2:] == [end] * 2 and own[-1:] == [end] and own[-2:] != [end] * 2:
            ids = ids[:-1]
        return ids

    def ended(self, text: str) -> str:
        """A text with the token that ends it, which is learned, too."""
        end = self._tokenizer.eos_token
        if not end:
            raise ValueError("the model's tokenizer names no token that ends a text (eos_token)")
        return text if text.rstrip().endswith(end) else text + str(end)

    def conversation(self, messages: Sequence[Message], row: Row, *, asks: bool = False) -> Written:
        """Messages of a row, with its tools; ``asks``: up to where the assistant's answer begins."""
        options = {"tools": row.get("tools"), **row.get("chat_template_kwargs", {})}
        source = self._source(options)
        spelled = self._spelled(messages, options)
        if not asks:
            _check_names(spelled, options, source)
            self._check_nothing_is_lost(spelled, options)
        marked = self._assistant_only and not asks and _MARK.search(source) is not None
        found = self._tokens(spelled, options, asks=asks, marked=marked)
        learned = [bool(mark) for mark in found.get("assistant_masks", [])] or [True] * len(
            found["input_ids"]
        )
        written = Written(list(found["input_ids"]), learned)
        if asks:
            return written
        unlearned = set(row.get("unlearned", ()))
        if self._assistant_only and not marked:
            return self._answers_marked(spelled, options, written.ids, unlearned)
        for index in sorted(unlearned):
            start, end = self._span(index, spelled, options, written.ids)
            written.learned[start:end] = [False] * (end - start)
        return written

    def unwritten(self, messages: Sequence[Message], row: Row, *, start: int = 0) -> Counter[str]:
        """Which kinds of text in messages of a row, from ``start`` on, the template does not write, and how
        often."""
        options = {"tools": row.get("tools"), **row.get("chat_template_kwargs", {})}
        self._source(options)
        spelled = self._spelled(messages, options)
        return dropped(
            spelled,
            options["tools"],
            lambda some, tools: self._rendered(some, {**options, "tools": tools}),
            start=start,
        )

    def ends(self, ids: Sequence[int]) -> bool:
        """Whether tokens end with one of the tokenizer's special ones, blanks behind it left aside."""
        if self._special is None:
            added = self._tokenizer.added_tokens_decoder
            self._special = frozenset(number for number, token in added.items() if token.special)
        for token in reversed(ids):
            if token in self._special:
                return True
            if str(self._tokenizer.decode([token])).strip():
                return False
        return False

    def _answers_marked(
        self, messages: list[Message], options: Row, ids: list[int], unlearned: set[int]
    ) -> Written:
        """Only what the assistant writes is learned, where the template itself does not mark it."""
        written = Written(ids, [False] * len(ids))
        for index, message in enumerate(messages):
            if message["role"] == "assistant" and index not in unlearned:
                start, end = self._answer(index, messages, options, ids)
                written.learned[start:end] = [True] * (end - start)
        return written

    def _source(self, options: Row) -> str:
        if self._template is not None:
            return self._template
        if not self._tokenizer.chat_template:
            raise ValueError(
                "the model has no chat template, which messages need; write prompt and completion as texts"
            )
        return str(self._tokenizer.get_chat_template(None, tools=options["tools"]))

    def _tokens(
        self, messages: Sequence[Message], options: Row, *, asks: bool = False, marked: bool = False
    ) -> Any:
        """Tokens by the library; with the assistant's marked where the template marks them."""
        try:
            return self._tokenizer.apply_chat_template(
                list(messages),
                tokenize=True,
                return_dict=True,
                add_generation_prompt=asks,
                return_assistant_tokens_mask=marked,
                chat_template=self._template,
                **options,
            )
        except Exception as error:
            raise _refused(error) from error

    def _rendered(self, messages: Sequence[Message], options: Row) -> str:
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    list(messages),
                    tokenize=False,
                    chat_template=self._template,
                    **options,
                )
            )
        except Exception as error:
            raise _refused(error) from error

    def _spelled(self, messages: Sequence[Message], options: Row) -> list[Message]:
        """The messages with arguments and missing contents as this template writes them rightly.

        Templates differ: some encode an object as JSON, others put a JSON text in as it is, and some write an
        absent content as None.
        """
        if not any(message.get("tool_calls") or message.get("content") is None for message in messages):
            return list(messages)
        problem = "the model's chat template does not write the tool calls' arguments as JSON"
        for as_text in (False, True):
            for empty in (None, ""):
                tried = [_respelled(message, as_text=as_text, empty=empty) for message in messages]
                try:
                    text = self._rendered(tried, options)
                except ValueError as error:
                    problem = str(error)
                    continue
                blank = self._rendered(
                    [_respelled(one, as_text=as_text, empty="") for one in messages], options
                )
                if text.count("None") <= blank.count("None") and not _is_garbled(tried, text):
                    return tried
        raise ValueError(problem)

    def _check_nothing_is_lost(self, messages: list[Message], options: Row) -> None:
        """Refuse a message that the template passes over, as some do with roles that they do not know."""
        text = self._rendered(messages, options)
        for index, message in enumerate(messages):
            content = (message.get("content") or "").strip()
            if not content or content in text:
                continue
            other = [*messages[:index], {**message, "content": _OTHER}, *messages[index + 1 :]]
            if self._rendered(other, options) == text:
                raise ValueError(
                    f"the model's chat template leaves out message {index} (role {message['role']!r})"
                )

    def _span(self, index: int, messages: list[Message], options: Row, ids: list[int]) -> tuple[int, int]:
        """Where the tokens of a message begin and end."""
        start = self._boundary(index, messages, options, ids)
        end = self._boundary(index + 1, messages, options, ids)
        if end <= start:
            raise ValueError(
                f"the place where the chat template writes message {index} is ambiguous, so that it "
                "would be learned"
            )
        return start, end

    def _answer(self, index: int, messages: list[Message], options: Row, ids: list[int]) -> tuple[int, int]:
        """Where what the assistant writes begins and ends: behind what asks for it, and before the next
        message's head."""
        start = self._asked(index, messages, options, ids)
        end = self._answered(index, messages, options, ids, start)
        if end <= start:
            raise ValueError(f"the place where the chat template writes message {index} is ambiguous")
        content = (messages[index].get("content") or "").rstrip()
        if end < len(ids) and content and str(self._tokenizer.decode(ids[start:end])).endswith(content):
            end += 1  # some templates end an answer with the first token of what follows it
        return start, end

    def _asked(self, index: int, messages: list[Message], options: Row, ids: list[int]) -> int:
        asked = self._prefix(messages[:index], options, asks=True)
        if (
            asked is None
            and index == 0
            and messages[0].get("content")
            and not checked.must_be_named(messages[0])
        ):
            # some templates need a message before they can ask
            other = [{**messages[0], "content": _OTHER}, *messages[1:]]
            asked = list(self._tokens(other, options)["input_ids"])
        behind = common(asked or [], ids)
        if asked is not None and behind == len(asked):
            return behind
        return max(behind, self._boundary(index, messages, options, ids))

    def _answered(self, index: int, messages: list[Message], options: Row, ids: list[int], start: int) -> int:
        if index + 1 == len(messages):
            return len(ids)
        alone = self._prefix(messages[: index + 1], options)
        if alone is not None and ids[: len(alone)] == alone:
            return len(alone)
        end = self._boundary(index + 1, messages, options, ids)
        return end if alone is None else _same_ending(ids, alone, start, end)

    def _boundary(self, count: int, messages: list[Message], options: Row, ids: list[int]) -> int:
        """How many tokens the first messages take."""
        if count == 0:
            return 0
        if count == len(messages):
            return len(ids)
        before = self._prefix(messages[:count], options)
        if before is not None and ids[: len(before)] == before:
            return len(before)
        # it writes them otherwise when others follow; what changes with the next content belongs to that
        other = [*messages[:count], {**messages[count], "content": _OTHER}, *messages[count + 1 :]]
        changed = self._tokens(other, options)["input_ids"]
        most = min(len(ids), len(changed))
        return next((place for place in range(most) if ids[place] != changed[place]), most)

    def _prefix(self, messages: list[Message], options: Row, *, asks: bool = False) -> list[int] | None:
        try:
            return list(self._tokens(messages, options, asks=asks)["input_ids"])
        except ValueError:  # some templates take whole conversations only
            return None


def common(ids: Sequence[int], others: Sequence[int]) -> int:
    """How many tokens both begin with."""
    most = min(len(ids), len(others))
    return next((index for index in range(most) if ids[index] != others[index]), most)


_CLOSING = 3
"""So many tokens at most does a template put behind a last message only."""
_COMPARED = 64
"""So many tokens identify an ending; of long texts that repeat themselves all would take minutes."""


def _same_ending(ids: Sequence[int], alone: Sequence[int], start: int, end: int) -> int:
    """Where a message ends within its span: as it ends where it is the last one."""
    best, found = 0, end
    for closing in range(min(_CLOSING, len(alone)) + 1):
        stop = len(alone) - closing
        for place in range(end, start, -1):
            most = min(place - start, stop, _COMPARED)
            same = next(
                (back for back in range(most) if ids[place - 1 - back] != alone[stop - 1 - back]), most
            )
            if same > best:
                best, found = same, place
    return found


_MARK = re.compile(r"\{%-?\s*generation\s*-?%\}")


def _respelled(message: Message, *, as_text: bool, empty: str | None) -> Message:
    made = dict(message)
    if made.get("content") is None and ("content" in made or empty is not None):
        made["content"] = empty
    if not made.get("tool_calls"):
        return made
    made["tool_calls"] = [_respelled_call(call, as_text=as_text) for call in made["tool_calls"]]
    return made


def _respelled_call(call: Row, *, as_text: bool) -> Row:
    if isinstance(call.get("function"), dict):
        return {**call, "function": _respelled_call(call["function"], as_text=as_text)}
    arguments = call.get("arguments")
    if not as_text:
        return {**call, "arguments": checked.as_object(arguments, "arguments")}
    if isinstance(arguments, str) and arguments:
        return dict(call)
    return {**call, "arguments": json.dumps(arguments or {}, ensure_ascii=False)}


def _arguments(messages: Sequence[Message]) -> Iterator[Any]:
    for message in messages:
        if message.get("tool_calls"):
            for call, _ in checked.calls(message, ""):
                yield call.get("arguments")


def _is_garbled(messages: Sequence[Message], text: str) -> bool:
    """Whether arguments are in a text as Python writes them, or as JSON within JSON."""
    for arguments in _arguments(messages):
        plain = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        wrong = [json.dumps(plain, ensure_ascii=False)[1:-1], json.dumps(json.dumps(json.loads(plain)))[1:-1]]
        if isinstance(arguments, dict):
            wrong.append(str(arguments))
        right = {plain, json.dumps(json.loads(plain)), "{}"}
        if any(spelling in text for spelling in wrong if spelling not in right):
            return True
    return False


def _check_names(messages: Sequence[Message], options: Row, source: str) -> None:
    """What the template does not name it cannot write: refused where it is something to learn, or to know."""
    for index, message in enumerate(messages):
        for key in checked.must_be_named(message):
            if not re.search(rf"\b{key}\b", source):
                raise ValueError(
                    f"the model's chat template leaves out '{key}' of message {index}: it would be lost"
                )
    if options["tools"] and not re.search(r"\btools\b", source):
        raise ValueError("the model's chat template leaves out 'tools': they would be lost")
    for key in options:
        if key != "tools" and not re.search(rf"\b{re.escape(key)}\b", source):
            raise ValueError(f"the model's chat template does not know 'chat_template_kwargs.{key}'")


def _refused(error: Exception) -> Exception:
    said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if type(error).__name__ == "TemplateSyntaxError":
        return BadSpecError(f"the model's chat template cannot be used: {said}")
    return ValueError(f"the model's chat template refuses the messages: {said}")


def with_template(spec: EngineSpec, tokenizer: Any) -> Any:
    """The tokenizer with the spec's own chat template, where it has one; `BadSpecError` where it is none."""
    if spec.data.chat_template is None:
        return tokenizer
    tokenizer.chat_template = spec.data.chat_template
    try:
        written = tokenizer.apply_chat_template(_TRIED, tokenize=False)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BadSpecError(f"data.chat_template cannot be used: {reason}") from error
    if not str(written).strip():
        raise BadSpecError("data.chat_template writes nothing of a question and its answer")
    return tokenizer

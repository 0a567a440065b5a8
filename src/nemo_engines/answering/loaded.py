"""Models in memory: one that was trained, and the one it was trained from.

An adapter is switched off for answers of its base model, so both share the weights. A whole model that is
compared with its base is loaded beside it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_engines.answering.asked import AnswerRequest, AnswerSettings, RefusedRequestError
from nemo_engines.errors import BadSpecError

ADAPTER = "adapter_config.json"


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model as clients call it."""

    name: str
    weights: Any
    words: Any
    """Its tokenizer."""
    adapted: bool | None = None
    """Whether the adapter of the weights answers; none have one."""

    def at_work(self) -> AbstractContextManager[Any]:
        """Around what is computed with it."""
        off: AbstractContextManager[Any] = (
            self.weights.disable_adapter() if self.adapted is False else nullcontext()
        )
        return off


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer, and at its end why it ended."""

    text: str
    finish: str | None = None
    """``stop`` or ``length``."""
    prompt_tokens: int = 0
    answer_tokens: int = 0


class LoadedModels:
    """The models that this process has; one answer is computed at a time."""

    def __init__(self, models: Sequence[NamedModel]) -> None:
        self._models = {model.name: model for model in models}
        self._computing = threading.Lock()

    @property
    def names(self) -> list[str]:
        """What clients can ask for."""
        return list(self._models)

    def answer(self, request: AnswerRequest, given_up: threading.Event) -> Generator[Piece]:
        """The answer in pieces; it ends early when it is given up.

        Raises `RefusedRequestError` before the first piece.
        """
        model = self._models.get(request.model)
        if model is None:
            raise RefusedRequestError(
                f"model: there is no '{request.model}' here; there is {', '.join(self._models)}"
            )
        ids = _prompt(model, request)
        space = _context_length(model.weights.config) - len(ids)
        if space < 1:
            raise RefusedRequestError(
                f"the prompt has {len(ids)} tokens, which leaves no space for an answer"
            )
        return self._computed(model, ids, request.settings, space, given_up)

    def _computed(
        self,
        model: NamedModel,
        ids: list[int],
        settings: AnswerSettings,
        space: int,
        given_up: threading.Event,
    ) -> Generator[Piece]:
        with self._computing, model.at_work():
            yield from _pieces(model, ids, settings, space, given_up)


def load(folder: Path, name: str, *, base: Path | None, base_name: str | None, device: str) -> LoadedModels:
    """Load the model of a folder and, where it has a name, the base model; `BadSpecError` says why not."""
    from transformers import AutoTokenizer, utils  # noqa: PLC0415 - only an engine's environment has it

    utils.logging.disable_progress_bar()
    adapter = (folder / ADAPTER).is_file()
    if adapter and base is None:
        raise BadSpecError(f"{folder} is an adapter: give the folder of its base model by --base")
    try:
        weights = _weights(base if adapter and base is not None else folder, device)
        if adapter:
            from peft import PeftModel  # noqa: PLC0415

            weights = PeftModel.from_pretrained(weights, folder).eval()
        words = AutoTokenizer.from_pretrained(_with_words(folder, base))
        found = [NamedModel(name, weights, words, True if adapter else None)]
        if base_name is not None and base is not None:
            plain = weights if adapter else _weights(base, device)
            base_words = AutoTokenizer.from_pretrained(base)
            found.append(NamedModel(base_name, plain, base_words, False if adapter else None))
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:500]
        raise BadSpecError(f"the model {folder} cannot be loaded: {reason}") from error
    return LoadedModels(found)


def _with_words(folder: Path, base: Path | None) -> Path:
    there = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
    return folder if there or base is None else base


def _weights(folder: Path, device: str) -> Any:
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    numbers: Any = "auto" if device == "cuda" else torch.float32
    return AutoModelForCausalLM.from_pretrained(folder, dtype=numbers).to(device).eval()


def _context_length(config: Any) -> int:
    return int(getattr(config, "max_position_embeddings", None) or 1 << 20)


def _prompt(model: NamedModel, request: AnswerRequest) -> list[int]:
    words = model.words
    if request.prompt is not None:
        return [int(one) for one in words(request.prompt)["input_ids"]]
    if not words.chat_template:
        raise RefusedRequestError(
            f"messages: the tokenizer of '{model.name}' has no chat template; send a prompt to "
            "/v1/completions"
        )
    try:
        text = words.apply_chat_template(list(request.messages), add_generation_prompt=True, tokenize=False)
    except Exception as error:  # the template is a program, and raises what it likes
        raise RefusedRequestError(f"messages: the chat template refuses them: {error}") from error
    return [int(one) for one in words(text, add_special_tokens=False)["input_ids"]]


def _pieces(
    model: NamedModel, ids: list[int], settings: AnswerSettings, space: int, given_up: threading.Event
) -> Iterator[Piece]:
    """Compute token by token; text is given once no later token can change it, or end it before."""
    made: list[int] = []
    shown, finish = 0, "length"
    text = ""
    for token in _tokens(model, ids, settings, min(settings.most_tokens, space)):
        if given_up.is_set():
            return
        if token in _ends(model):
            finish = "stop"
            made.append(token)
            break
        made.append(token)
        text = model.words.decode(made, skip_special_tokens=True)
        cut = _stopped(text, settings.stop)
        if cut is not None:
            text, finish = text[:cut], "stop"
            break
        safe = len(text) - _unsure(text, settings.stop)
        if safe > shown:
            yield Piece(text[shown:safe])
            shown = safe
    yield Piece(text[shown:], finish, len(ids), len(made))


def _ends(model: NamedModel) -> set[int]:
    configured = model.weights.generation_config.eos_token_id
    found = configured if isinstance(configured, list) else [configured]
    return {one for one in (*found, model.words.eos_token_id) if one is not None}


def _stopped(text: str, stops: Sequence[str]) -> int | None:
    places = [place for place in (text.find(one) for one in stops) if place >= 0]
    return min(places) if places else None


def _unsure(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end are held back: half a character, or the beginning of a stop."""
    held = 1 if text.endswith("\N{REPLACEMENT CHARACTER}") else 0
    for one in stops:
        for length in range(len(one) - 1, held, -1):
            if text.endswith(one[:length]):
                held = length
                break
    return held


def _tokens(model: NamedModel, ids: list[int], settings: AnswerSettings, most: int) -> Iterator[int]:
    """The tokens as the library makes them, on a thread of its own, which ends when no more are wanted."""
    made: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()
    enough = threading.Event()
    work = threading.Thread(target=_make, args=(model, ids, settings, most, made, enough), daemon=True)
    work.start()
    try:
        while (found := made.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        enough.set()
        work.join()


def _make(
    model: NamedModel,
    ids: list[int],
    settings: AnswerSettings,
    most: int,
    made: queue.SimpleQueue[int | BaseException | None],
    enough: threading.Event,
) -> None:
    import torch  # noqa: PLC0415
    from transformers import set_seed  # noqa: PLC0415

    asked = torch.tensor([ids], device=next(model.weights.parameters()).device)
    if settings.seed is not None:
        set_seed(settings.seed)
    try:
        with torch.inference_mode():
            model.weights.generate(
                input_ids=asked,
                attention_mask=torch.ones_like(asked),
                max_new_tokens=most,
                streamer=_Streamer(made),
                stopping_criteria=[lambda *_: torch.tensor([enough.is_set()], device=asked.device)],
                **_sampling(settings),
                **_padding(model),
            )
    except BaseException as error:  # noqa: BLE001 - raised again where the answer is waited for
        made.put(error)
    made.put(None)


class _Streamer:
    """What the library reports of each token."""

    def __init__(self, made: queue.SimpleQueue[int | BaseException | None]) -> None:
        self._made = made
        self._prompt_seen = False

    def put(self, value: Any) -> None:
        """The prompt first, then each token."""
        if self._prompt_seen:
            self._made.put(int(value.flatten()[0]))
        self._prompt_seen = True

    def end(self) -> None:
        """The end is reported in another way, since it may be an error."""


def _sampling(settings: AnswerSettings) -> Mapping[str, Any]:
    if settings.temperature == 0 or settings.top_k == 1:
        return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    return {
        "do_sample": True,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": max(0, settings.top_k),
    }


def _padding(model: NamedModel) -> Mapping[str, Any]:
    """Nothing is padded here, but the library warns where it does not know with what."""
    if model.weights.generation_config.pad_token_id is not None:
        return {}
    return {"pad_token_id": next(iter(sorted(_ends(model))), 0)}


def described(models: LoadedModels) -> Mapping[str, Any]:
    """The answer of ``/v1/models``."""
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "owned_by": "nemo"} for name in models.names],
    }

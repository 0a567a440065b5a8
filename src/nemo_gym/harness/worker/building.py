"""Tasks with their data, and the rows that the collector asks: as lm-eval's own loop makes its requests."""

from __future__ import annotations

import inspect
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np
from lm_eval import utils
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from lm_eval.defaults import DEFAULT_MAX_GEN_TOKS, DEFAULT_OTHER_SEED, DEFAULT_RANDOM_SEED

from nemo_gym.harness.worker.definitions import CannotRunError, Definition, Loaded, NoTokenizerError, said
from nemo_gym.harness.worker.encoding import Encoder

_MOST_STOPS = 4
"""Stop texts that the chat API takes; answers are cut at the others when they are graded."""

# lm-eval compiles a template again for every document
utils.env.from_string = lru_cache(maxsize=4096)(utils.env.from_string)


@dataclass(frozen=True, slots=True)
class Settings:
    """How the requests of tasks are made; names and defaults are lm-eval's."""

    num_fewshot: int | None = None
    fewshot_seed: int | None = DEFAULT_OTHER_SEED
    chat: bool = False
    """Messages for a chat API, in place of one text, where text is generated."""
    template: bool = False
    """The tokenizer's chat template, where likelihoods are asked for."""
    tokenizer: str | None = None
    max_length: int = 2048
    fewshot_as_multiturn: bool = True
    system_instruction: str | None = None
    gen_kwargs: Mapping[str, Any] | None = None
    api: str = "chat"


def make_tasks(loaded: Loaded, settings: Settings) -> dict[str, Any]:
    """The tasks with their data, in order. Raises `CannotRunError` with the reason of lm-eval."""
    random.seed(DEFAULT_RANDOM_SEED)
    np.random.seed(DEFAULT_OTHER_SEED)
    tasks = {name: _make(definition) for name, definition in loaded.definitions.items()}
    for task in tasks.values():
        _override(task, settings)
    return tasks


def _make(definition: Definition) -> Any:
    config = dict(definition.settings)
    try:
        if "class" not in config:
            return ConfigurableTask(config=config)
        kind = config["class"]
        task = kind(config=config) if "config" in inspect.signature(kind.__init__).parameters else kind()
    except Exception as error:
        raise CannotRunError(f"the task {definition.name} cannot be made: {said(error)}") from error
    if hasattr(task, "config") and hasattr(task.config, "task"):
        task.config.task = definition.name
    return task


def _override(task: Any, settings: Settings) -> None:
    """What `lm_eval.simple_evaluate` sets after loading."""
    if settings.gen_kwargs and task.get_config("output_type") == "generate_until":
        task.set_config(key="generation_kwargs", value=dict(settings.gen_kwargs), update=True)
    own = task.get_config("num_fewshot")
    if settings.num_fewshot is not None:
        if own != 0:
            task.set_config(key="num_fewshot", value=settings.num_fewshot)
    elif own is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=settings.fewshot_seed)


def repeats_of(tasks: Mapping[str, Any]) -> int:
    """How often each document is asked; tasks of a group must agree."""
    found = {int(task.get_config("repeats") or 1) for task in tasks.values()}
    if len(found) > 1:
        raise CannotRunError("its tasks ask for different numbers of repeats; run them one by one")
    return found.pop()


def instances_by_document(task: Any, settings: Settings) -> dict[int, list[Instance]]:
    """The requests of each document, in order; few-shot examples are drawn in the order of documents."""
    template = _template(task, settings)
    try:
        task.build_all_requests(
            rank=0,
            world_size=1,
            system_instruction=settings.system_instruction,
            apply_chat_template=template is not None,
            fewshot_as_multiturn=settings.fewshot_as_multiturn,
            chat_template=template,
        )
    except Exception as error:
        raise CannotRunError(
            f"no requests can be made of the task {task.task_name}: {said(error)}"
        ) from error
    found: dict[int, list[Instance]] = {}
    for instance in task.instances:
        found.setdefault(instance.doc_id, []).append(instance)
    for instances in found.values():
        instances.sort(key=lambda instance: instance.idx)
    return found


def _template(task: Any, settings: Settings) -> Callable[..., str] | None:
    """What makes a prompt of messages; ``None`` where prompts are plain texts."""
    if settings.chat and generates(task):
        return _messages_as_json
    return _encoder(settings).apply_chat_template if settings.template else None


def generates(task: Any) -> bool:
    """Whether a task asks for texts rather than for likelihoods."""
    return task.OUTPUT_TYPE in {None, "generate_until"}


def _encoder(settings: Settings) -> Encoder:
    if settings.tokenizer is None:
        raise NoTokenizerError(
            "it asks for likelihoods of tokens, so the model's tokenizer is needed; set policy_tokenizer to "
            "its name on the hub or to a folder"
        )
    return _made_encoder(settings.tokenizer, settings.max_length)


_made_encoder = lru_cache(maxsize=1)(Encoder)


def _messages_as_json(messages: list[dict[str, Any]], **_how: Any) -> str:
    return json.dumps(messages)


def rows(tasks: Mapping[str, Any], settings: Settings) -> Iterator[dict[str, Any]]:
    """The rows of all tasks: of several the first document of each, then the second, and so on.

    So the first rows of a group are of all its tasks. Within a task the order is that of its documents.
    """
    each = [_task_rows(name, task, settings) for name, task in tasks.items()]
    for together in zip_longest(*each):
        yield from (row for row in together if row is not None)


def _task_rows(name: str, task: Any, settings: Settings) -> Iterator[dict[str, Any]]:
    documents = instances_by_document(task, settings)
    chat = settings.chat and generates(task)
    for doc_id, instances in documents.items():
        first = instances[0]
        head = {"task": name, "doc_id": doc_id, "doc_hash": doc_hash(first.doc)}
        kinds = {instance.request_type for instance in instances}
        if kinds == {"generate_until"} and len(instances) == 1:
            asked = {"responses_create_params": _params(name, first, settings, chat=chat)}
        elif kinds == {"loglikelihood"} or (kinds == {"loglikelihood_rolling"} and len(instances) == 1):
            asked = _likelihoods(name, instances, settings)
        else:
            raise CannotRunError(f"the task {name} mixes requests: {', '.join(sorted(kinds))}")
        yield {"lm_eval": head, "doc": plain(first.doc), "target": target_of(task, first.doc), **asked}


def _params(name: str, instance: Instance, settings: Settings, *, chat: bool) -> dict[str, Any]:
    if len(instance.args) != 2:
        raise CannotRunError(f"the task {name} sends more than text with its questions")
    prompt, kwargs = instance.args
    return {"input": json.loads(prompt) if chat else prompt, **sampling(kwargs, settings.api)}


def _likelihoods(name: str, instances: list[Instance], settings: Settings) -> dict[str, Any]:
    """Token ids of all pairs of a document; a context that several have is there once."""
    encoder = _encoder(settings)
    rolling = instances[0].request_type == "loglikelihood_rolling"
    try:
        pairs = encoder.windows(instances[0].args[0]) if rolling else encoder.pairs(instances)
    except CannotRunError as error:
        raise CannotRunError(f"the task {name}: {error}") from error
    contexts: dict[tuple[int, ...], int] = {}
    numbered = [[contexts.setdefault(tuple(first), len(contexts)), rest] for first, rest in pairs]
    texts = [instance.args[-1] for instance in instances]
    return {
        "responses_create_params": {"input": instances[0].args[0] or texts[0]},
        "likelihoods": {
            "rolling": rolling,
            "contexts": [list(context) for context in contexts],
            "pairs": numbered,
            "texts": [] if rolling else texts,
        },
    }


def sampling(kwargs: Mapping[str, Any], api: str) -> dict[str, Any]:
    """Parameters of the Responses API from lm-eval's ``generation_kwargs``, with its defaults."""
    rest = dict(kwargs)
    greedy = rest.pop("do_sample", None) is False
    most = rest.pop("max_gen_toks", DEFAULT_MAX_GEN_TOKS)
    most = rest.pop("max_tokens", most)
    stops = until_of(rest)
    rest.pop("until", None)
    temperature = rest.pop("temperature", 0)
    found = {"max_output_tokens": int(most), "temperature": 0.0 if greedy else float(temperature), **rest}
    if stops and api != "responses":
        found["stop"] = stops if api == "completions" else stops[:_MOST_STOPS]
    return found


def until_of(kwargs: Mapping[str, Any] | None) -> list[str]:
    """The stop texts of ``generation_kwargs``."""
    until = (kwargs or {}).get("until")
    if until is None:
        return []
    return [until] if isinstance(until, str) else [text for text in until if text]


def target_of(task: Any, document: Any) -> str:
    """What would be right, for readers."""
    try:
        return str(task.doc_to_target(document))
    except Exception:  # noqa: BLE001 - a task's own code; grading alone needs it
        return ""


def doc_hash(document: Any) -> str:
    """lm-eval's digest of a document."""
    text = json.dumps(document, indent=2, default=utils.handle_non_serializable, ensure_ascii=False)
    found: str = utils.hash_string(text)
    return found


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has no place for becomes text, and no number null."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    short = isinstance(value, int) and -(1 << 63) <= value < 1 << 64
    return value if value is None or isinstance(value, str | bool) or short else str(value)

"""The rows of a task of lm-eval: made once, kept with the digests of all that they were made of.

The file of rows has its own digest in its name and is never written again. A note beside it says of which
files it was made; when one of these changes, or lm-eval does, other rows are made.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from nemo_gym import job_paths
from nemo_gym.errors import ConfigError, DataError
from nemo_gym.harness import environment, names
from nemo_gym.harness.options import HarnessOptions
from nemo_gym.harness.process import (
    HarnessError,
    TokenizerNeededError,
    UnknownHarnessTaskError,
    Worker,
    WorkerEndedError,
)
from nemo_runs.counts import counted
from nemo_runs.suggestions import suggestion

Report = Callable[[str], None]
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


@dataclass(frozen=True, slots=True)
class HarnessRows:
    """Rows that were made, and of what."""

    path: Path
    """The file of rows."""
    version: str
    """Of lm-eval."""
    environment: str
    """The digest of its environment."""
    tasks: dict[str, Any]
    """The version of each task, by name."""
    files: dict[str, str]
    """Digests of the files of the definition, by path."""
    data: dict[str, str]
    """Digests of the local files of rows, by path."""
    listing: str
    """The digest of the names of all definitions in the user's own folders."""
    repeats: int
    """How often the task itself wants each document asked."""
    nltk: dict[str, str]
    """What of NLTK's data answers are graded with, by name, with where it is on this machine."""

    @property
    def definition(self) -> dict[str, Any]:
        """What identifies the task, wherever its files are."""
        digests = sorted((Path(path).name, digest) for path, digest in self.files.items())
        text = json.dumps(digests)
        return {
            "lm_eval": self.version,
            "tasks": self.tasks,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }


class NoTokenizerDataError(DataError):
    """Rows hold token ids, and it was not said which tokenizer makes them."""


def of_server(base_url: str, model: str, key_variable: str | None) -> str:
    """What stands for the tokenizer of a server, as the worker reads it."""
    return json.dumps({"server": base_url, "model": model, "key": key_variable})


def settings(options: HarnessOptions, api: str, tokenizer: str | None) -> dict[str, Any]:
    """How the worker makes requests."""
    chosen = options.apply_chat_template
    return {
        "num_fewshot": options.num_fewshot,
        "fewshot_seed": options.fewshot_seed,
        "chat": chosen is not False and api != "completions",
        "template": bool(chosen),
        "tokenizer": tokenizer,
        "max_length": options.max_length,
        "fewshot_as_multiturn": options.fewshot_as_multiturn,
        "system_instruction": options.system_instruction,
        "gen_kwargs": options.gen_kwargs or None,
        "api": api,
    }


def find(options: HarnessOptions, api: str, tokenizer: str | None = None) -> HarnessRows | None:
    """The rows that were made before and still hold, or ``None``. Nothing of lm-eval is started."""
    try:
        found = json.loads(_note(options, api, tokenizer).read_text(encoding="utf-8"))
        rows = HarnessRows(**{item.name: found[item.name] for item in fields(HarnessRows)})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    rows = HarnessRows(**{**asdict(rows), "path": Path(rows.path)})
    if rows.environment != environment.recipe().digest or rows.listing != _listing(options.include_path):
        return None
    same = all(_sha256(path) == digest for path, digest in {**rows.files, **rows.data}.items())
    there = rows.path.is_file() and all(Path(path).exists() for path in rows.nltk.values())
    return rows if same and there else None


def ensure(
    options: HarnessOptions,
    api: str,
    tokenizer: str | None = None,
    *,
    report: Report,
    environ: Mapping[str, str] = os.environ,
) -> HarnessRows:
    """The rows, made first where they are not there. What that would download is reported before.

    Raises `ConfigError` for a task that is unknown or cannot be run, `DataError` for data that is not there.
    """
    if options.apply_chat_template and api == "completions" and tokenizer is None:
        raise ConfigError(
            "benchmark.lm_eval.apply_chat_template: the completions API takes one text, and only the server "
            "knows the model's template; use policy_api=chat, or set policy_tokenizer."
        )
    found = find(options, api, tokenizer)
    return found if found is not None else _make(options, api, tokenizer, report, environ)


def _make(
    options: HarnessOptions, api: str, tokenizer: str | None, report: Report, environ: Mapping[str, str]
) -> HarnessRows:
    name = names.PREFIX + options.task
    offline = any(environ.get(variable, "") not in {"", "0"} for variable in _OFFLINE)
    worker = Worker(
        environment.ensure_python(report, environ), environment.worker_environ(environ, offline=offline)
    )
    try:
        opened = open_task(worker, options, api, tokenizer, report=report)
        report(f"making the rows of {name}, once for these settings")
        if opened["downloads"]:
            report(_announcement(name, opened["downloads"], offline=offline))
        if opened["nltk"]:
            _announce_nltk(name, opened["nltk"], report, offline=offline)
        note = _note(options, api, tokenizer)
        note.parent.mkdir(parents=True, exist_ok=True)
        unfinished = note.with_name(f".{uuid.uuid4().hex[:12]}.tmp")
        try:
            made = _rows(worker, unfinished, name, opened["downloads"])
            path = _published(unfinished, note.parent)
        finally:
            unfinished.unlink(missing_ok=True)
    finally:
        worker.close()
    rows = HarnessRows(
        path=path,
        version=opened["version"],
        environment=environment.recipe().digest,
        tasks=made["versions"],
        files=opened["files"],
        data=opened["data"],
        listing=_listing(options.include_path),
        repeats=made["repeats"],
        nltk=made["nltk"],
    )
    _save(note, rows)
    report(f"{name}: {counted(made['rows'], 'row')} in {path}")
    return rows


def open_task(
    worker: Worker,
    options: HarnessOptions,
    api: str,
    tokenizer: str | None = None,
    *,
    report: Report,
    repeats: int | None = None,
) -> dict[str, Any]:
    """Have the worker read the definitions. Raises `ConfigError` for what cannot be run, and
    `WorkerEndedError` when the process ended meanwhile.
    """
    asked = {
        "task": options.task,
        "include_path": [str(folder) for folder in options.include_path],
        "settings": settings(options, api, tokenizer),
        "repeats": repeats,
    }
    index: Path | None = environment.index_file()
    try:
        answer: dict[str, Any] = worker.ask("open", index=None, **asked)
        if answer.get("needs_index"):
            index = names.shipped_index(worker, report)
            answer = worker.ask("open", index=str(index), **asked)
    except UnknownHarnessTaskError as error:
        known = [row["name"] for row in json.loads(index.read_text("utf-8"))] if index else []
        hint = suggestion(options.task, known) or "; see `gym list benchmarks lm_eval/`"
        raise ConfigError(f"benchmark {names.PREFIX}{options.task}: {error}{hint}.") from None
    except WorkerEndedError:
        raise
    except HarnessError as error:
        raise ConfigError(f"benchmark {names.PREFIX}{options.task}: {str(error).rstrip('.')}.") from None
    return answer


def _announcement(name: str, downloads: Iterable[str], *, offline: bool) -> str:
    what = "; ".join(downloads)
    if offline:
        return f"{name} needs {what}: it must be in the cache of Hugging Face, since HF_HUB_OFFLINE is set"
    return f"{name} needs {what}: it is downloaded now, unless the cache of Hugging Face has it"


def _announce_nltk(name: str, wanted: Sequence[str], report: Report, *, offline: bool) -> None:
    """Raises `DataError` where it may not be downloaded."""
    needs = f"NLTK's data {', '.join(wanted)}, which is not on this machine"
    if offline:
        raise DataError(
            f"benchmark {name}: it needs {needs}, and HF_HUB_OFFLINE is set; "
            f"python -m nltk.downloader {' '.join(wanted)} brings it where there is a network."
        )
    report(f"{name} needs {needs}: it is downloaded now")


def _rows(worker: Worker, output: Path, name: str, downloads: Iterable[str]) -> dict[str, Any]:
    try:
        made: dict[str, Any] = worker.ask("rows", output=str(output))
    except TokenizerNeededError as error:
        raise NoTokenizerDataError(f"benchmark {name}: {str(error).rstrip('.')}.") from None
    except HarnessError as error:
        words = str(error).rstrip(".")
        needs = "; ".join(downloads)
        hint = f"; it needs {needs}, from the network or the cache of Hugging Face" if needs else ""
        raise DataError(f"benchmark {name}: {words}{hint}.") from None
    return made


def _published(unfinished: Path, folder: Path) -> Path:
    """Give the whole file the name of its content, once it is on the disk."""
    from nemo_runs.durable import files

    with unfinished.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    path = folder / f"rows-{digest[:16]}.jsonl"
    unfinished.replace(path)
    files.sync_folder(folder)
    return path


def _save(note: Path, rows: HarnessRows) -> None:
    from nemo_runs.durable import files

    values = {**asdict(rows), "path": str(rows.path)}
    files.replace_file(note, json.dumps(values, indent=2).encode() + b"\n")


def _note(options: HarnessOptions, api: str, tokenizer: str | None = None) -> Path:
    """Where it is written down what was made for these settings."""
    asked = {
        **settings(options, api, tokenizer),
        "include_path": [str(folder) for folder in options.include_path],
        "environment": environment.recipe().digest,
    }
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
    folder = options.task.replace("/", "_").lstrip(".") or "_"
    return job_paths.prepared_data("lm_eval") / folder / f"{digest}.json"


def _listing(include_path: Iterable[Path]) -> str:
    names_there = sorted(str(path) for folder in include_path for path in folder.rglob("*.yaml"))
    return hashlib.sha256("\n".join(names_there).encode()).hexdigest()[:16]


def _sha256(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""

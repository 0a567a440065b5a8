"""What an engine says of a job before there is one: asked about the job's data and model.

It is asked on the service's machine, where filesets, paths and engines are, in folders like those of the job.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nemo_helix_server.customizer.backends import row_policies, shared
from nemo_helix_server.customizer.compile import Compiled
from nemo_helix_server.customizer.facts import CompileFacts, EngineFacts, InputSource
from nemo_helix_server.customizer.steps import fetching, splitting
from nemo_helix_server.customizer.steps.reporting import StepError
from nemo_helix_server.errors import InvalidError, ServerError, UnavailableError
from nemo_helix_server.executors import landlock
from nemo_helix_server.files.locations import copied, open_tree
from nemo_helix_server.isolation import IsolationFolders

SECONDS: Final = 300.0
"""How long a preview may take: loading the engine's libraries, and writing every row."""
_WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx")
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME")
_BAD_SPEC: Final = 2
_one_at_a_time = threading.Lock()

Document = dict[str, Any]


def answer(
    facts: CompileFacts,
    compiled: Compiled,
    module: str,
    arguments: Sequence[str],
    *,
    places_in: Callable[[Path], IsolationFolders] | None = None,
    seconds: float = SECONDS,
) -> Document:
    """What a module of the engine says of a job's spec, data and model; `InvalidError` for what it refuses.

    ``places_in`` gives what the engine may see when it works in a folder; without it, it is not confined.
    """
    if not _one_at_a_time.acquire(timeout=seconds):
        raise UnavailableError("another preview or dry run is still being made; try again")
    try:
        with tempfile.TemporaryDirectory(prefix="nemo-preview-") as made:
            folder = Path(made)
            _bring(facts, compiled.spec, folder)
            (folder / "spec.json").write_text(json.dumps(compiled.engine_spec), encoding="utf-8")
            places = places_in(folder) if places_in else None
            return ask(facts.engine, folder, module, arguments, places=places, seconds=seconds)
    finally:
        _one_at_a_time.release()


def _bring(facts: CompileFacts, spec: Mapping[str, Any], folder: Path) -> None:
    """The same folders as the job's storage will have, of which the model's has no weights."""
    places = (
        (shared.MODEL, facts.model),
        (shared.ADAPTER, facts.adapter),
        (shared.DATASET, facts.dataset),
        (shared.VALIDATION, facts.validation),
        *((row_policies.folder(number), one) for number, one in enumerate(facts.beside)),
    )
    for name, source in places:
        if source is None:
            continue
        if source.kind == "hub":
            raise InvalidError(
                f"{source.shown} is fetched by the job's first step, and nothing can be previewed before; "
                "upload it, or name a folder of the service's machine"
            )
        try:
            _bring_one(source, folder / name, weights=name not in {shared.MODEL, shared.ADAPTER})
        except OSError as error:
            raise UnavailableError(f"{source.shown} cannot be read: {error.strerror}") from error
    share = shared.split_share(spec)
    if share:
        try:
            splitting.split(
                folder / shared.DATASET,
                folder / shared.VALIDATION,
                share=share,
                seed=spec["schedule"]["seed"],
            )
        except StepError as error:
            raise InvalidError(str(error)) from error


def _bring_one(source: InputSource, target: Path, *, weights: bool) -> None:
    if source.kind == "path":
        fetching.link(Path(source.place), target)
        return
    root, _, name = source.place.rstrip("/").rpartition("/")
    place = open_tree(root)
    for entry in place.files(name):
        if not weights and entry.path.endswith(_WEIGHTS):
            continue
        local, path = place.local(f"{name}/{entry.path}"), target / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if local is not None:
            path.symlink_to(local)
            continue
        file, _ = place.open(f"{name}/{entry.path}")
        with file:
            copied(file, open_tree(path.parent).upload(path.name))


def ask(
    engine: EngineFacts,
    folder: Path,
    module: str,
    arguments: Sequence[str],
    *,
    places: IsolationFolders | None = None,
    seconds: float = SECONDS,
) -> Document:
    """Run a module on the spec in a folder, kept to ``places`` where they are given."""
    argv = [engine.python, "-P", "-m", module, "--spec", "spec.json", *arguments]
    environ = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | dict(engine.environment)
    if places is not None:
        argv, environ = landlock.confined(argv, places.file_access), environ | dict(places.environment)
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        written, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise InvalidError(
            f"the engine was not ready within {seconds:.0f} s; try it with a part of the data set"
        ) from None
    if process.returncode == 0:
        found: Document = json.loads(written)
        return found
    reason = (said.strip() or f"it ended with exit status {process.returncode}").splitlines()[-1]
    if process.returncode == _BAD_SPEC:
        raise InvalidError(reason.replace(f"{folder}/", ""))
    raise ServerError(f"engine {engine.name} gave no answer: {reason}")

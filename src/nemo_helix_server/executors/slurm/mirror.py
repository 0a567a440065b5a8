"""What the service has of a run on a cluster: its small files as they are, and a list of its checkpoints.

The folder of a job at the service holds, under the same names, claims, ends, logs, metrics and progress of
its starts on the cluster; of checkpoints it holds manifests and what is wrong with them, as the cluster's
host sees them. What is known is only ever read from these files, so a crash at any moment costs another look.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_helix_server.executors.slurm.on_cluster import folders, looking, wire
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.log_parts import part_numbers
from nemo_helix_server.storage.trainer_files import SeenCheckpoint
from nemo_runs.durable.files import replace_file
from nemo_trainer import contract
from nemo_trainer.contract import generations
from nemo_trainer.contract.manifest import parse_manifest

_WRITING = threading.Lock()
"""Held from the reading of a state to its writing: looks and starts come in threads of their own."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """The files of one run at the service."""

    run: Path
    trainer: Path
    state: Path
    """A file: what is known of the step's checkpoints and outputs, and of the size of the job's storage."""
    fetched: Path
    """A file: what was wrong with the results when they were fetched, which the cluster's host cannot see."""

    def have(self) -> dict[str, Any]:
        """What is here already, so that the other side sends what is new."""
        state = read_state(self.state)
        return {
            "run": _digests(self.run, looking.RUN_FILES),
            "log": _position(self.run / run_files.OUTPUT),
            "trainer": _digests(self.trainer, tuple(looking.small_files(self.trainer))),
            "metrics": {name: _position(self.trainer / name) for name in looking.metric_files(self.trainer)},
            "checkpoints": looking.listed_mark(state.checkpoints),
            "listed": state.listed,
        }

    def output_problems(self) -> list[str] | None:
        """What is wrong with the outputs: as they came here, or else as the cluster's host sees them."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(self.fetched.read_bytes())
            if said["of"] == self._outputs_digest():
                return [str(one) for one in said["problems"]]
        return read_state(self.state).outputs

    def note_fetched(self, problems: Sequence[str]) -> None:
        """Keep what was wrong with the results that came here, which counts for these results alone."""
        if not problems:
            self.fetched.unlink(missing_ok=True)
            return
        said = {"of": self._outputs_digest(), "problems": list(problems)}
        self.fetched.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.fetched, json.dumps(said).encode(), mode=0o600)

    def _outputs_digest(self) -> str:
        """Distinguishes what the step says it has produced from what it said at another time."""
        file = generations.newest_file(contract.TrainerPaths(self.trainer).outputs)
        return wire.digest(file.read_bytes())

    def apply(self, found: Mapping[str, Any]) -> bool:
        """Write what has come; whether there is more to ask for at once.

        The end of a run is written last: when it is seen, everything else is here.
        """
        self.run.mkdir(mode=0o700, parents=True, exist_ok=True)
        more = self._log(found["log"])
        if found["scheduler_log"] and found["scheduler_log"] != self.scheduler_log():
            _write(self.run, {folders.SCHEDULER_LOG: found["scheduler_log"]}, (folders.SCHEDULER_LOG,))
        if "trainer" in found:
            self.trainer.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, piece in found["metrics"].items():
                more |= _grow(self.trainer / name, piece)
            self._write_state(found)
            _write(self.trainer, found["trainer"], tuple(found["trainer"]))
        _write(self.run, found["run"], tuple(name for name in looking.RUN_FILES if name != run_files.EXIT))
        if not more:
            _write(self.run, found["run"], (run_files.EXIT,))
        return more

    def scheduler_log(self) -> str:
        """The last lines that the batch script itself printed."""
        with contextlib.suppress(OSError):
            return (self.run / folders.SCHEDULER_LOG).read_text(encoding="utf-8", errors="replace")
        return ""

    def _write_state(self, found: Mapping[str, Any]) -> None:
        seen: dict[str, Any] = {"outputs": found["outputs"], "listed": found["listed"]}
        if found["checkpoints"] is not None:
            seen |= {"checkpoints": found["checkpoints"]}
        if found["bytes"] is not None:
            seen |= {"bytes": int(found["bytes"])}
        with _WRITING:
            before = read_state(self.state)
            after = replace(before, **seen)
            if after != before:
                write_state(self.state, after)

    def belongs_to(self, address: Mapping[str, Any]) -> None:
        """From now on a cluster has the trainer path, of which nothing was seen yet."""
        with _WRITING:
            write_state(self.state, TrainerState(address=dict(address)))

    def belongs_here(self) -> None:
        """From now on the trainer path is at the service."""
        with _WRITING:
            self.state.unlink(missing_ok=True)
            self.fetched.unlink(missing_ok=True)

    def _log(self, pieces: list[Mapping[str, Any]]) -> bool:
        """Follow the parts of a log; a part that was put aside there is put aside here."""
        newest, more = self.run / run_files.OUTPUT, False
        for piece in pieces:
            path = self.run / piece["name"]
            if path != newest and piece["from"] and newest.exists():
                newest.replace(path)
            more = _grow(path, piece)
        kept = {piece["name"] for piece in pieces}
        if len(kept) > 1:
            # what was put aside before the parts that are there now is gone there too
            for number in part_numbers(self.run):
                if f"output.{number}.jsonl" not in kept:
                    (self.run / f"output.{number}.jsonl").unlink(missing_ok=True)
        return more


@dataclass(frozen=True, slots=True)
class TrainerState:
    """What was seen last of a trainer path, beside the files that are here."""

    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    listed: str = ""
    """Distinguishes the folders of these checkpoints from others, without a look into them."""
    outputs: list[str] | None = None
    """What is wrong with the outputs; `None`: the step says that it has none."""
    bytes: int = 0
    """What the job's storage takes on the cluster."""
    address: dict[str, Any] | None = None
    """The cluster that has the trainer path; `None`: nothing was brought there, so it is that of the run."""

    def folder_of(self, checkpoint: str) -> str | None:
        """The name of the folder of a checkpoint by its id; `None`: it is not there."""
        found = (one["folder"] for one in self.checkpoints if _seen(one, "").id == checkpoint)
        return next(found, None)

    def seen(self, where: str) -> list[SeenCheckpoint]:
        """The checkpoints, oldest step first; ``where`` is the trainer path for people."""
        return [_seen(one, where) for one in self.checkpoints]


def read_state(file: Path) -> TrainerState:
    """What was seen last; nothing of a file that is not there or damaged."""
    try:
        return TrainerState(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return TrainerState()


def write_state(file: Path, state: TrainerState) -> None:
    """Keep what was seen."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(file, json.dumps(asdict(state)).encode(), mode=0o600)


def _seen(one: Mapping[str, Any], where: str) -> SeenCheckpoint:
    step, problem = int(one["step"]), one["problem"]
    if one["manifest"] is None:
        return SeenCheckpoint(step, "", 0, None, problem or "its manifest cannot be read")
    data = wire.raw(one["manifest"])
    try:
        manifest = parse_manifest(data, Path(where) / "checkpoints" / str(step))
    except contract.CheckpointUnusableError as error:
        return SeenCheckpoint(step, "", 0, None, str(error))
    name = f"ckpt-{step}-{hashlib.sha256(data).hexdigest()[:10]}"
    return SeenCheckpoint(step, name, manifest.size, manifest, problem)


def _digests(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            found[name] = wire.digest((folder / name).read_bytes())
    return found


def _position(path: Path) -> list[Any] | None:
    """How much of a growing file is here, and the digest of its end."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - looking.WINDOW))
            return [size, wire.digest(file.read())]
    except OSError:
        return None


def _grow(path: Path, piece: Mapping[str, Any] | None) -> bool:
    """Add what has come; whether the original has more."""
    if piece is None:
        return False
    data = wire.raw(piece["data"])
    with path.open("ab") as file:
        if file.tell() != piece["from"]:
            file.truncate(piece["from"])
        file.write(data)
    return bool(data) and piece["from"] + len(data) < piece["size"]


def _write(folder: Path, files: Mapping[str, str | None], names: tuple[str, ...]) -> None:
    for name in names:
        if name not in files:
            continue
        content = files[name]
        if content is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(folder / name, wire.raw(content), mode=0o600)

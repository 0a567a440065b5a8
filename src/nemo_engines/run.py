"""``python -m nemo_engines.run --spec FILE --dir FOLDER``: one training run, under the trainer contract.

What needs no library comes first: spec, data, and whether the checkpoint belongs to them. So a mistake is
said in
a second, and nothing is loaded and no device is touched before it is known that there is something to train.
"""

from __future__ import annotations

from nemo_engines.early_signals import SIGNALS  # before all that takes a while to load

# isort: split
import argparse
import importlib.metadata
import os
import shutil
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from nemo_engines import devices, launching, spec
from nemo_engines.data import mixing, rows
from nemo_engines.data.rows import Dataset
from nemo_engines.errors import BadSpecError, TrainerError
from nemo_engines.evaluation.material import questions
from nemo_engines.inputs import input_digests
from nemo_engines.registry import Engine, engine_for, load_driver
from nemo_engines.rewards import Rewards
from nemo_engines.running import TrainingRun, World
from nemo_engines.spec import EngineSpec
from nemo_runs.counts import counted
from nemo_runs.durable.files import sync_folder
from nemo_runs.errors import RunsError
from nemo_trainer import early_failures
from nemo_trainer.contract import JobContext
from nemo_trainer.save_intervals import MAX_OVERHEAD
from nemo_trainer.saving import SavePolicy
from nemo_trainer.session import Session

DEFAULTS = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "WANDB_MODE": "disabled",
}
"""Threads that fight over cores make a small step forty times slower; and nothing is fetched while
training."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Train, and leave at once with the exit code of the contract."""
    SIGNALS.install()
    options = _options(sys.argv[1:] if argv is None else argv)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    context: JobContext | None = None
    try:
        context = JobContext.from_environ(os.environ, folder=options.dir)
        status = _run(options, context)
    except (TrainerError, RunsError) as error:
        sys.stderr.write(f"{error}\n")
        status = error.exit_code if isinstance(error, TrainerError) else 1
    except Exception as error:  # noqa: BLE001 - the outermost edge: the log gets it all
        traceback.print_exc()
        sys.stderr.write(f"training failed: {type(error).__name__}: {error}\n")
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nemo_engines.run", description="Train one model as a spec says.")
    parser.add_argument(
        "--spec", type=Path, help="JSON file with the engine spec; by default the step's config"
    )
    parser.add_argument(
        "--dir", type=Path, help="the trainer path; by default what the job's environment says"
    )
    return parser.parse_args(argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is known before there is a session."""

    wanted: EngineSpec
    file: Path
    engine: Engine
    device: Literal["cpu", "cuda"]
    precision: Literal["bf16", "fp16", "fp32"]
    rewards: Rewards | None
    training: Dataset
    validation: Dataset | None

    @property
    def processes(self) -> int:
        return self.wanted.devices.count * self.wanted.devices.nodes


def _run(options: argparse.Namespace, context: JobContext) -> int:
    world = devices.world_of(os.environ)
    try:
        plan = _planned(options, context)
        if plan.processes > 1 and (world is None or world.size < plan.processes):
            return launching.launch(plan.wanted, plan.file, context.trainer_path)
        session = _opened(plan, context)
    except (TrainerError, RunsError) as error:
        early_failures.record(context, error)
        raise
    with session:
        SIGNALS.hand_over()
        run = TrainingRun(
            spec=plan.wanted,
            session=session,
            world=world or World(),
            rows=plan.training.rows,
            validation_rows=plan.validation.rows if plan.validation else None,
            checkpoint=session.restore() if context.writes else None,
            work=context.trainer_path / f"work{_suffix(context, session, plan.processes)}",
            staging=_staging(Path(plan.wanted.output), session.context.paths.suffix),
            device=plan.device,
            precision=plan.precision,
            rewards=plan.rewards,
        )
        _train(run, plan.engine)
    return 0


def _planned(options: argparse.Namespace, context: JobContext) -> _Plan:
    file = options.spec or context.config_file
    if file is None:
        raise BadSpecError("there is no engine spec: give --spec FILE, or run as a step that has a config")
    wanted = spec.read_spec(file)
    engine = engine_for(wanted)
    device = devices.chosen_device(wanted)
    devices.check_device(wanted, device)
    precision = devices.chosen_precision(wanted, device)
    if wanted.evaluation is not None:
        questions(wanted.evaluation)  # what cannot be asked is said before the first step
    rewards = Rewards(wanted.rewards) if wanted.method == "grpo" and wanted.rewards is not None else None
    return _Plan(
        wanted=wanted,
        file=file,
        engine=engine,
        device=device,
        precision=precision,
        rewards=rewards,
        training=_training(wanted, rewards),
        validation=_dataset(wanted, wanted.validation, "validation", rewards) if wanted.validation else None,
    )


def _opened(plan: _Plan, context: JobContext) -> Session:
    wanted = plan.wanted
    return Session.open(
        context,
        inputs=input_digests(
            wanted, plan.training, plan.validation, precision=plan.precision, processes=plan.processes
        ),
        engine={"name": plan.engine.name, "method": wanted.method, "packages": _versions(plan.engine)},
        environment=os.environ.get("NEMO_ENGINE_ENVIRONMENT") or Path(sys.prefix).parent.name,
        boundary=spec.boundary(wanted),
        policy=_policy(wanted),
    )


def _policy(wanted: EngineSpec) -> SavePolicy:
    save = wanted.save
    overhead = (save.max_overhead or MAX_OVERHEAD) if save.interval == "auto" else None
    return SavePolicy(
        steps=save.steps, seconds=save.seconds, boundary=spec.boundary(wanted), max_overhead=overhead
    )


def _train(run: TrainingRun, engine: Engine) -> None:
    os.environ.setdefault("HF_DATASETS_CACHE", str(run.work / "datasets"))
    run.work.mkdir(parents=True, exist_ok=True)
    run.session.progress(phase="compiling_config", backend=run.spec.backend or run.spec.engine)
    if run.world.leads:
        shutil.rmtree(run.staging, ignore_errors=True)
        run.staging.mkdir(parents=True)
    load_driver(engine).train(run)
    if not run.world.leads:
        return
    run.session.progress(phase="processing_checkpoint")
    output = Path(run.spec.output).absolute()
    run.session.require()
    _put(run.staging, output)
    if output.is_relative_to(run.session.context.storage):
        run.session.outputs([output])
    run.session.finish()


def _training(wanted: EngineSpec, rewards: Rewards | None) -> Dataset:
    sets = mixing.read_weighted(wanted, rewards.shape if rewards else None)
    for one in sets:
        _report_unused(one.data)
    return mixing.mixed(sets, wanted.seed)


def _dataset(wanted: EngineSpec, place: str | None, part: str, rewards: Rewards | None) -> Dataset:
    found = rows.read_for(wanted, Path(place or ""), part, rewards.shape if rewards else None)
    _report_unused(found)
    return found


def _report_unused(found: Dataset) -> None:
    if found.unused:
        shown = ", ".join(f"{name} ({counted(count, 'row')})" for name, count in found.unused.items())
        sys.stderr.write(f"{found.file}: nothing is learned of these keys: {shown}\n")


def _staging(output: Path, suffix: str) -> Path:
    return output.absolute().with_name(f".{output.name}{suffix}.new")


def _suffix(context: JobContext, session: Session, processes: int) -> str:
    """What the folder of the library's files is called behind ``work``: the same for all ranks.

    A process that outlived its replacement still writes into its own. Of several ranks only the first one
    holds a generation; the others know of it where the launcher has claimed it for all of them.
    """
    known = processes == 1 or session.context.generation == context.generation
    return session.context.paths.suffix if known else ""


def _put(staging: Path, output: Path) -> None:
    """The trained model appears as a whole; one of an earlier attempt is replaced."""
    aside = output.with_name(f".{output.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    if output.exists():
        output.rename(aside)
    staging.rename(output)
    sync_folder(output.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _versions(engine: Engine) -> dict[str, str]:
    found = {}
    for name in engine.packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()

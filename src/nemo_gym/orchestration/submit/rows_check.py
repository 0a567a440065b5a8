"""Whether the rows of benchmarks can be asked and graded, as far as they are on this machine.

They are read as the run will read them, so that what it would refuse is known before a job waits in a queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_gym.errors import GymError
from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.orchestration.submit.sandbox_check import sandboxes_of
from nemo_runs import findings
from nemo_runs.counts import counted
from nemo_runs.findings import Finding

_ABOUT = "rows"


def look(runs: Mapping[str, BenchmarkRun], *, elsewhere: str | None) -> Iterator[Finding]:
    """A finding for benchmarks of which the same is to be said.

    ``elsewhere`` names the machine that jobs are submitted from when it is not this one. Code that the
    configuration names, of graders and tools, is loaded.
    """
    said: dict[tuple[Any, str], list[str]] = {}
    for name, run in runs.items():
        if run.run is None or run.run["benchmark"].get("command") is not None:
            continue
        said.setdefault(_of_run(run.run, elsewhere), []).append(name)
    for (verdict, text), names in said.items():
        yield verdict(_ABOUT, f"{', '.join(names)}: {text}")


def _of_run(run: Mapping[str, Any], elsewhere: str | None) -> tuple[Any, str]:
    """What to say of one run: a maker of findings, and the text."""
    from nemo_gym.rollouts.collect import preview
    from nemo_gym.rollouts.data.prepare import data_path
    from nemo_gym.rollouts.run_config.schema import RunConfig

    config = RunConfig.model_validate(dict(run))
    try:
        path = data_path(config)
        if not path.is_file():
            return findings.unknown, _absent(run, elsewhere)
        if config.benchmark.lm_eval is not None:
            return findings.ok, f"lm-eval has made them ({path})"
        tasks = preview.num_tasks(config, path)
        if elsewhere is None or not any(sandboxes_of(run)):
            next(preview.first_requests(config, 1, lambda _text: None), None)
    except GymError as error:
        return findings.problem, str(error)
    except OSError as error:
        return findings.problem, f"{error.filename or 'the rows'}: cannot be read ({error.strerror})."
    return findings.ok, f"{counted(tasks, 'task')} can be asked and graded"


def _absent(run: Mapping[str, Any], elsewhere: str | None) -> str:
    datasets = run["benchmark"].get("datasets") or {}
    dataset = datasets.get(run.get("split")) or {}
    is_made = dataset.get("prepare_script") or dataset.get("huggingface") or run["benchmark"].get("lm_eval")
    if is_made and not run.get("input_jsonl_fpath"):
        return "they are made when its first job begins, and checked then; `gym eval prepare` makes them now"
    where = f"on {elsewhere}" if elsewhere else "not here"
    return f"they are {where}, and are checked when its first job begins"

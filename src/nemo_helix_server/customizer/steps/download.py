"""The first step: everything that training needs, in the job's storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_helix_server.customizer.steps import benchmarks, ending, fetching, splitting
from nemo_helix_server.customizer.steps.reporting import TransferReport, main


def download(config: dict[str, Any], report: TransferReport) -> None:
    """Bring each item; what was brought is recorded, and copies are this step's outputs."""
    storage, items = report.context.storage, config["items"]
    report.update(
        now=True, phase="downloading", total_filesets=len(items), completed_filesets=0, progress_pct=0.0
    )
    brought: list[dict[str, Any]] = []
    own: list[Path] = []
    for number, item in enumerate(items, start=1):
        report.update(now=True, current_fileset=item["shown"])
        folder = storage / item["folder"]
        if fetching.fetch(item, folder, report, config["hub_python"]):
            own.append(folder)
        brought.append(fetching.describe(item, folder))
        report.update(now=True, completed_filesets=number, progress_pct=round(100 * number / len(items), 2))
    if config.get("split"):
        own += _split(storage, config["split"], own)
    if config.get("evaluation"):
        report.update(now=True, current_fileset="the benchmark of eval")
        own.append(benchmarks.bring(config["evaluation"], storage))
    if config.get("end"):
        ending.try_end(config["end"], report, storage / config["end"]["base"])
    record = fetching.write_record(storage, brought)
    report.outputs([record, *dict.fromkeys(own)])


def _split(storage: Path, wanted: dict[str, Any], own: list[Path]) -> list[Path]:
    dataset, into = storage / "dataset", storage / wanted["into"]
    splitting.split(dataset, into, share=wanted["share"], seed=wanted["seed"])
    return [folder for folder in (dataset, into) if folder not in own]


if __name__ == "__main__":
    main(download)

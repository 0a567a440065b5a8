"""The third step: the trained model into a fileset."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

from nemo_helix_server.customizer.steps.reporting import StepError, TransferReport, main
from nemo_helix_server.files.filesets import Filesets
from nemo_helix_server.files.locations import copied, open_tree
from nemo_runs.clock import SystemClock

_ADAPTER_CONFIG = "adapter_config.json"


def upload(config: dict[str, Any], report: TransferReport) -> None:
    """Put every file of the trained model into the fileset; doing it twice is as doing it once."""
    source = report.context.storage / config["source"]
    paths = sorted(path for path in source.rglob("*") if path.is_file() and not path.is_symlink())
    if not paths:
        raise StepError(f"the training left no model in {config['source']}")
    workspace, name = config["workspace"], config["fileset"]
    total = sum(path.stat().st_size for path in paths)
    report.update(
        now=True,
        phase="uploading",
        fileset=f"{workspace}/{name}",
        total_files=len(paths),
        total_size=total,
        uploaded_files=0,
        uploaded_bytes=0,
    )
    filesets = Filesets(open_tree(config["root"]), SystemClock(), config["root"])
    if not filesets.exists(workspace, name):
        filesets.create(f"job:{report.context.job}", workspace, name, config.get("description"))
    for path in paths:
        relative = path.relative_to(source).as_posix()
        report.update(current_file=relative)
        if relative == _ADAPTER_CONFIG:
            _put_bytes(filesets, workspace, name, relative, _with_base(path, config["base_model"]))
        else:
            _put(filesets, workspace, name, relative, path)
        report.add("uploaded_files", 1)
        report.add("uploaded_bytes", path.stat().st_size)
    report.update(now=True, progress_pct=100.0)
    record = report.context.trainer_path / "uploaded.json"
    record.write_text(
        json.dumps({"fileset": f"{workspace}/{name}", "files": len(paths)}) + "\n", encoding="utf-8"
    )
    report.outputs([record])


def _with_base(path: Path, base: str) -> bytes:
    """An adapter says what it is attached to; training knew that only as a folder of the job."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return json.dumps({**found, "base_model_name_or_path": base}, indent=2).encode() + b"\n"


def _put_bytes(filesets: Filesets, workspace: str, name: str, relative: str, data: bytes) -> None:
    copied(io.BytesIO(data), filesets.upload(workspace, name, relative))


def _put(filesets: Filesets, workspace: str, name: str, relative: str, path: Path) -> None:
    """A hard link where that is possible: the job's storage goes in the end, the file stays."""
    target = filesets.tree.local(f"{workspace}/{name}/{relative}")
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        part.unlink(missing_ok=True)
        try:
            os.link(path, part)
        except OSError:
            shutil.copyfile(path, part)
        part.replace(target)
        part.unlink(missing_ok=True)
        return
    with path.open("rb") as file:
        copied(file, filesets.upload(workspace, name, relative))


if __name__ == "__main__":
    main(upload)

"""Bringing one model or dataset into the job's storage: linked where it is here, fetched where it is not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_helix_server.customizer.steps.reporting import StepError, TransferReport
from nemo_helix_server.files.locations import FileTree, copied, open_tree

_HUB_PROGRAM = """
import json, os, sys
def plain(value):
    # a table gives every object the keys of all others of its column, as null
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if part is not None}
    return [plain(part) for part in value] if isinstance(value, list) else value
what, name, folder = sys.argv[1:4]
os.environ.pop("HF_HUB_OFFLINE", None)
os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", "20")
os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "10")
try:
    if what == "model":
        from huggingface_hub import snapshot_download
        snapshot_download(name, local_dir=folder)
    else:
        os.environ.pop("HF_DATASETS_OFFLINE", None)
        from datasets import load_dataset
        for split, rows in load_dataset(name).items():
            with open(os.path.join(folder, f"{split}.jsonl"), "w", encoding="utf-8") as file:
                for row in rows:
                    file.write(json.dumps(plain(row), ensure_ascii=False, default=str) + "\\n")
except Exception as error:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    sys.stderr.write(f"{type(error).__name__}: {reason}\\n")
    sys.exit(1)
"""
HUB_TIMEOUT = 24 * 3600


def fetch(item: Mapping[str, Any], folder: Path, report: TransferReport, hub_python: str) -> bool:
    """Put what an item names into a folder; whether its bytes are now in the job's own storage."""
    staging = folder.with_name(f".{folder.name}.new")
    _remove(staging)
    kind = item["kind"]
    if kind == "path":
        link(Path(item["place"]), staging)
    elif kind == "fileset":
        _from_fileset(item, staging, report)
    else:
        _from_hub(item, staging, hub_python)
    _remove(folder)
    staging.rename(folder)
    return bool(kind != "path")


def describe(item: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What was brought: every file with its size, and of data its digest."""
    files = []
    for path in sorted(found for found in folder.rglob("*") if found.is_file()):
        entry: dict[str, Any] = {"path": path.relative_to(folder).as_posix(), "size": path.stat().st_size}
        if item["what"] != "model":
            with path.open("rb") as file:
                entry["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
        files.append(entry)
    return {"folder": item["folder"], "kind": item["kind"], "source": item["shown"], "files": files}


def write_record(storage: Path, items: list[dict[str, Any]]) -> Path:
    """Keep what was brought with the job."""
    path = storage / "sources.json"
    path.write_text(json.dumps({"items": items}, indent=1) + "\n", encoding="utf-8")
    return path


def link(source: Path, target: Path) -> None:
    """Refer to a folder or file of this machine, without a copy."""
    if source.is_dir():
        target.symlink_to(source, target_is_directory=True)
    elif source.is_file():
        target.mkdir()
        (target / source.name).symlink_to(source)
    else:
        raise StepError(f"there is neither a file nor a folder at {source} any more")


def _from_fileset(item: Mapping[str, Any], target: Path, report: TransferReport) -> None:
    """Hard links where the files are on the same disk: they stay as they are when the fileset changes."""
    root, _, name = str(item["place"]).rstrip("/").rpartition("/")
    place = open_tree(root)
    entries = list(place.files(name))
    if not entries:
        raise StepError(f"the fileset {item['shown']} has no files")
    report.update(
        fileset=item["shown"], total_files=len(entries), total_size=sum(one.size for one in entries)
    )
    for entry in entries:
        report.update(current_file=entry.path)
        path = target / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        _take(place, f"{name}/{entry.path}", path)
        report.add("downloaded_files", 1)
        report.add("downloaded_bytes", entry.size)


def _take(place: FileTree, source: str, target: Path) -> None:
    local = place.local(source)
    if local is not None and not local.is_symlink():
        try:
            os.link(local, target)
        except OSError:
            shutil.copyfile(local, target, follow_symlinks=False)
        return
    file, _ = place.open(source)
    with file:
        copied(file, open_tree(target.parent).upload(target.name))


def _from_hub(item: Mapping[str, Any], target: Path, hub_python: str) -> None:
    target.mkdir()
    argv = [hub_python, "-c", _HUB_PROGRAM, item["what"], str(item["place"]), str(target)]
    try:
        done = subprocess.run(
            argv,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=HUB_TIMEOUT,
        )
        said = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        failed = done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        failed, said = True, str(error)
    if failed:
        upload = "nemo models upload" if item["what"] == "model" else "nemo files upload"
        raise StepError(
            f"{item['shown']} could not be had from the hub ({said.rstrip('.')}); fetch it where the hub "
            f"can be reached and `{upload}` it, or name a folder of this machine"
        )


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)

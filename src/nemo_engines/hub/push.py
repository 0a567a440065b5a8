"""``python -m nemo_engines.hub.push FOLDER OWNER/NAME``: a folder as one commit of a hub's repository.

Runs in an engine's interpreter. A JSON object on stdin says ``private``, ``message`` and ``revision``. The
token is that of the hub's own client: the variable ``HF_TOKEN``, or the file of `hf auth login`. Files that
the hub has from a push that was interrupted are not sent again. The last line on stdout is a JSON object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_engines.errors import BadSpecError, EngineUnavailableError, TrainerError


def main(argv: Sequence[str] | None = None) -> int:
    """Push; the exit codes are those of trainings."""
    folder, repository = sys.argv[1:] if argv is None else argv
    try:
        done = push(Path(folder), repository, json.load(sys.stdin))
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(json.dumps(done) + "\n")
    return 0


def push(folder: Path, repository: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Make the repository unless it is there, and commit every file; raises `TrainerError`."""
    try:
        import huggingface_hub as hub  # noqa: PLC0415 - only an engine's environment has it
    except ImportError as error:
        raise EngineUnavailableError(f"{error}: use the environment of `nemo engines install trl`") from error
    token = hub.get_token()
    if token is None:
        raise BadSpecError("there is no token of the hub: set HF_TOKEN, or log in by `hf auth login`")
    try:
        _make(hub, repository, private=bool(asked["private"]), token=token)
        done = hub.HfApi(token=token).upload_folder(
            repo_id=repository,
            folder_path=folder,
            commit_message=asked["message"],
            revision=asked.get("revision"),
        )
    except TrainerError:
        raise
    except Exception as error:  # the library raises many kinds
        raise BadSpecError(
            f"{repository}: {_sentence(error, token)}; nothing was committed, and what has arrived is not "
            "sent again by the next push"
        ) from error
    return {"url": str(getattr(done, "repo_url", None) or ""), "commit": getattr(done, "oid", None)}


def _make(hub: Any, repository: str, *, private: bool, token: str) -> None:
    api = hub.HfApi(token=token)
    try:
        there = api.repo_info(repository)
    except hub.errors.RepositoryNotFoundError:
        api.create_repo(repository, private=private, exist_ok=True)
        there = api.repo_info(repository)
    if private and not there.private:
        raise BadSpecError(
            f"the repository {repository} is public: --public agrees to that, or name another repository"
        )


def _sentence(error: Exception, token: str) -> str:
    """What went wrong, and why; the library says the second in another error, and the token in none."""
    found: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(found) < 2:
        found.append(
            " ".join(str(cause).split()).replace(token, "…")[:300].rstrip(".") or type(cause).__name__
        )
        cause = cause.__cause__
    return ": ".join(found)


if __name__ == "__main__":
    sys.exit(main())

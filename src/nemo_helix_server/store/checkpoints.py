"""Checkpoints of jobs, and which of them are pinned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import delete, select, update

from nemo_helix_server.jobs.model import CheckpointRow
from nemo_helix_server.store import rows, schema
from nemo_helix_server.store.session import StorePart

_checkpoints = schema.checkpoints.c
_PINS = frozenset({"pin_requested_at", "pin_requested_by", "pinned_at", "pinned_path"})


class CheckpointReader(StorePart):
    """Questions about checkpoints; None means that there is no such checkpoint."""

    def of_job(self, job_id: str) -> list[CheckpointRow]:
        """The checkpoints of a job, the newest step first."""
        query = select(schema.checkpoints).where(_checkpoints.job_id == job_id)
        ordered = query.order_by(_checkpoints.step.desc(), _checkpoints.created_at.desc())
        return [rows.checkpoint(row) for row in self.connection.execute(ordered)]

    def find(self, job_id: str, checkpoint_id: str) -> CheckpointRow | None:
        """A checkpoint of a job."""
        query = select(schema.checkpoints)
        query = query.where(_checkpoints.job_id == job_id, _checkpoints.id == checkpoint_id)
        found = self.connection.execute(query).first()
        return rows.checkpoint(found) if found else None

    def pin_requests(self) -> list[CheckpointRow]:
        """Checkpoints that are to be pinned and are not yet, or are pinned and are not to be any more."""
        asked, pinned = _checkpoints.pin_requested_at, _checkpoints.pinned_at
        query = select(schema.checkpoints).where(asked.is_(None) != pinned.is_(None))
        return [rows.checkpoint(row) for row in self.connection.execute(query.order_by(asked))]


class CheckpointWriter(CheckpointReader):
    """Recording checkpoints, and pinning them."""

    def put(self, checkpoint: CheckpointRow) -> None:
        """Record a checkpoint, or what is newly known of it; its pin and requests of one are left alone."""
        values = rows.columns(schema.checkpoints, checkpoint)
        keys = {"job_id", "id"}
        rows.put(self.connection, schema.checkpoints, [values], replaced=tuple(values.keys() - keys - _PINS))

    def request_pin(self, job_id: str, checkpoint_id: str, *, by: str, pin: bool) -> CheckpointRow | None:
        """Ask for a checkpoint to be pinned, or not to be any more."""
        request = {"pin_requested_at": self.now, "pin_requested_by": by}
        none = dict.fromkeys(request)
        found = self.find(job_id, checkpoint_id)
        if found is not None and (found.pin_requested_at is not None) is not pin:
            self._update(job_id, checkpoint_id, request if pin else none)
        return self.find(job_id, checkpoint_id)

    def set_pinned(
        self, job_id: str, checkpoint_id: str, path: str | None, problem: str | None = None
    ) -> None:
        """Record where the pinned copy is; None: that there is none.

        With a `problem` the request is withdrawn, because it cannot be met. A checkpoint that is neither
        pinned nor in the job's storage any more is forgotten.
        """
        values: dict[str, Any] = {"pinned_at": self.now if path else None, "pinned_path": path}
        if problem is not None:
            values |= {"problem": problem, "pin_requested_at": None, "pin_requested_by": None}
        self._update(job_id, checkpoint_id, values)
        gone = (_checkpoints.pinned_at.is_(None), _checkpoints.present.is_(False))
        self.connection.execute(
            delete(schema.checkpoints).where(
                _checkpoints.job_id == job_id, _checkpoints.id == checkpoint_id, *gone
            )
        )

    def _update(self, job_id: str, checkpoint_id: str, values: dict[str, Any]) -> None:
        here = (_checkpoints.job_id == job_id, _checkpoints.id == checkpoint_id)
        self.connection.execute(update(schema.checkpoints).where(*here), values)

    def drop(self, job_id: str, *, keep: Iterable[str]) -> None:
        """Forget checkpoints that are no longer in the job's storage.

        Those that are pinned, or are to be, stay, as not present.
        """
        gone = [_checkpoints.job_id == job_id, _checkpoints.id.not_in(tuple(keep))]
        unwanted = (_checkpoints.pinned_at.is_(None), _checkpoints.pin_requested_at.is_(None))
        self.connection.execute(delete(schema.checkpoints).where(*gone, *unwanted))
        self.connection.execute(update(schema.checkpoints).where(*gone), {"present": False})

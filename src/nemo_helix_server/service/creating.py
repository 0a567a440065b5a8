"""Making jobs: once, however often the request is repeated."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from typing import Any

from nemo_helix_plugin.jobs.types import CreateHelixJobRequest, HelixJobStatus
from nemo_helix_server.errors import ForbiddenError, StateConflictError
from nemo_helix_server.jobs import identifiers, retention
from nemo_helix_server.jobs.model import Caller, Job
from nemo_helix_server.jobs.orders import NewJob
from nemo_helix_server.service import responses
from nemo_helix_server.service.lookups import Lookups, checked
from nemo_helix_server.service.responses import Document
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.writer import StoreWriter
from nemo_helix_server.trackers import descriptions

logger = logging.getLogger(__name__)


class Creating(Lookups):
    """The beginning of a job."""

    def create(
        self,
        caller: Caller,
        workspace: str,
        body: CreateHelixJobRequest,
        *,
        client_token: str | None = None,
    ) -> tuple[Document, bool]:
        """Make a job; the flag says whether it is new.

        The same client token, or the same name with the same body, gives the job that was made before. Its
        directories come first and its rows are one unit, so there is one wait for the disk. A job whose
        directories cannot be made right now stays creation_pending until the controller has made them.
        """
        order = self._order(caller, workspace, body, client_token)
        named = body.name is not None
        with self.store.read() as reader:
            before = self._before(reader, caller, order, named=named)
            if before is not None:
                return self.shown(reader, before), False
        if self.machine is not None:
            self.machine.check_spec(body.platform_spec)
        prepared = self._prepare(order)
        job = None
        try:
            with self.store.write() as writer:
                # again: somebody may have been faster since
                before = self._before(writer, caller, order, named=named)
                if before is not None:
                    return self.shown(writer, before), False
                job = _made(writer, order, caller, prepared=prepared)
        finally:
            if job is None:
                self.storage.undo_prepare(order.workspace, order.id)
        self.wake()
        return responses.job(job, self.limits, self.clock), True

    def _before(self, reader: StoreReader, caller: Caller, order: NewJob, *, named: bool) -> Job | None:
        """The job that was made by this request before; raises where it cannot be made at all."""
        self.check_workspace(reader, order.workspace)
        before = _made_before(reader, order, named=named)
        if before is None:
            _check_secrets(reader, caller, order)
        return before

    def _order(
        self, caller: Caller, workspace: str, body: CreateHelixJobRequest, client_token: str | None
    ) -> NewJob:
        control = body.control.model_dump() if body.control else {}
        windows = {name: control.get(name) for name in ("pause_ttl_seconds", "failed_ttl_seconds")}
        retention.check_control(**windows, limits=self.limits)
        document = body.model_dump(mode="json")
        digest = hashlib.sha256(checked(document, "the job")).hexdigest()
        name = body.name or identifiers.job_name(body.source)
        return NewJob(
            id=identifiers.entity_id(identifiers.JOB),
            attempt_id=identifiers.entity_id(identifiers.ATTEMPT),
            step_id=identifiers.entity_id(identifiers.STEP),
            workspace=workspace,
            name=name,
            source=body.source,
            spec=document["spec"],
            platform_spec=document["platform_spec"],
            fileset=body.output_location or identifiers.fileset_name(name),
            created_by=caller.name,
            project=body.project,
            description=body.description,
            ownership=body.ownership,
            custom_fields=body.custom_fields,
            output_location=body.output_location,
            body_digest=digest,
            client_token=client_token,
            **windows,
        )

    def _prepare(self, order: NewJob) -> bool:
        """Make the job's directories; whether that was possible."""
        try:
            self.storage.prepare(order.workspace, order.id)
        except OSError as error:
            logger.warning("the directories of job %s cannot be made yet: %s", order.name, error)
            return False
        return True


def _made(writer: StoreWriter, order: NewJob, caller: Caller, *, prepared: bool) -> Job:
    why = "its directories are made" if prepared else None
    job = writer.jobs.create(order, who=caller.name, why="created", prepared=why)
    writer.tracker_runs.follow_with(job.id, descriptions.wanted(order.spec))
    return job


def _made_before(reader: StoreReader, order: NewJob, *, named: bool) -> Job | None:
    """The job that the same request made before; raises `StateConflictError` when another one is in the
    way.
    """
    by_token = (
        reader.jobs.by_client_token(order.workspace, order.client_token) if order.client_token else None
    )
    if by_token is not None:
        if reader.jobs.body_digest(by_token.id) == order.body_digest:
            return by_token
        raise StateConflictError(
            f"the idempotency key was used before, for job {by_token.name} with other contents; use a new key"
        )
    there = reader.jobs.find(order.workspace, order.name) if named else None
    if there is None or there.name != order.name:
        return None
    if there.status is HelixJobStatus.DELETION_PENDING:
        raise StateConflictError(
            f"job {there.name} is still being deleted; create it again when that is done"
        )
    if reader.jobs.body_digest(there.id) == order.body_digest:
        return there
    raise StateConflictError(
        f"a job named {there.name} exists already in workspace {there.workspace}, with other contents; "
        "choose another name"
    )


def _check_secrets(reader: StoreReader, caller: Caller, order: NewJob) -> None:
    for reference in _secret_references(order.platform_spec):
        workspace, slash, name = reference.partition("/")
        if not slash:
            workspace, name = order.workspace, reference
        if caller.workspace not in {None, workspace}:
            raise ForbiddenError(f"the secret {reference} is of another workspace than yours")
        if reader.secrets.find(workspace, name) is None:
            remedy = f"nemo secrets create {name} --value host:VARIABLE --workspace {workspace}"
            raise StateConflictError(
                f"there is no secret {name} in workspace {workspace}; create it with `{remedy}`"
            )


def _secret_references(platform_spec: Any) -> Iterator[str]:
    for step in platform_spec["steps"]:
        for variable in step.get("environment") or ():
            if variable.get("from_secret"):
                yield variable["from_secret"]["name"]
    for secret in platform_spec.get("secrets") or ():
        if secret.get("ref_id"):
            yield secret["ref_id"]

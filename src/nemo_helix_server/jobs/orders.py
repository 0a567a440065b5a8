"""What new rows are made from."""

from __future__ import annotations

from dataclasses import dataclass, field

from nemo_helix_server.jobs.model import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """What a job is made from; ids and names are chosen by the caller."""

    id: str
    attempt_id: str
    step_id: str
    workspace: str
    name: str
    source: str
    spec: Json
    platform_spec: Json
    fileset: str
    created_by: str
    project: str | None = None
    description: str | None = None
    ownership: Json | None = None
    custom_fields: Json | None = None
    output_location: str | None = None
    pause_ttl_seconds: int | None = None
    failed_ttl_seconds: int | None = None
    body_digest: str = ""
    """Digest of what was asked, by which a repeated create is recognised."""
    client_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAttempt:
    """What a rerun adds to a job."""

    id: str
    step_id: str
    created_by: str
    spec: Json
    platform_spec: Json
    status_details: Json = field(default_factory=dict)
    checkpoint: str | None = None

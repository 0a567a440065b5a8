"""What a transition leaves in the status details, beside what its author says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.jobs.states import BETWEEN_ALLOCATIONS, StatusEvent
from nemo_runs.clock import wire
from nemo_runs.environments.digests import same_software

GOES_ON = "goes_on"
"""Key of a step's details: what it does between two allocations, while its job shows `active`."""

EXECUTOR_PROBLEM = "executor_problem"
"""Key of a step's and a job's details: what the executor cannot do at the moment; it goes with the status."""


def merged(details: Mapping[str, Any], changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Details with changes merged key by key; a change to None removes its key."""
    result = {**details, **(changes or {})}
    return {key: value for key, value in result.items() if value is not None}


def after(
    details: Mapping[str, Any],
    changes: Mapping[str, Any] | None,
    event: StatusEvent,
    to: Status,
    now: int,
) -> dict[str, Any]:
    """A step's details after an event: its author's changes and the lifecycle's own stamps.

    The message of the status before goes with it; between two allocations it is what the step does there.
    """
    given = {**changes} if changes else {}
    goes_on = details.get(GOES_ON) if to in BETWEEN_ALLOCATIONS else None
    stamps: dict[str, Any] = {"message": given.get("message") or goes_on, EXECUTOR_PROBLEM: None}
    if event is StatusEvent.PAUSE_REQUESTED:
        stamps["pause_requested_at"] = wire(now)
    if event in {StatusEvent.PAUSE_WITHDRAWN, StatusEvent.PAUSE_WITHDRAWN_EARLY, StatusEvent.INTERRUPTED}:
        stamps["pause_requested_at"] = None
    if to not in BETWEEN_ALLOCATIONS or event is StatusEvent.RESUME_REQUESTED:
        stamps[GOES_ON] = None
    if event is StatusEvent.ACCEPTED:
        stamps["place"] = None  # another start may run elsewhere, and only some executors name a place
    if to is Status.RESUMING:
        stamps["resumed_at"] = wire(now)
    if to.can_go_on:
        stamps["stopped_at"] = wire(now)
    result = merged(merged(details, given), stamps)
    if to.can_go_on and "image_digest" in result:
        result["image_digest_at_save"] = result["image_digest"]
    return result


_OF_ONE_STEP = frozenset({"phase", "progress_pct", "percentage_done", "stops_at"})
"""What progress says of the step that runs, and of no other."""


def between_steps(details: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt's details when its next step begins: how far the one before was says nothing of it."""
    return {key: value for key, value in details.items() if key not in _OF_ONE_STEP}


def on_attempt(details: Mapping[str, Any], step_details: Mapping[str, Any], to: Status) -> dict[str, Any]:
    """An attempt's details after its step came to a status."""
    saved = step_details.get("image_digest_at_save") if to.can_go_on else None
    changes = {"image_digest_at_save": saved} if saved else {}
    return merged(details, {**changes, GOES_ON: step_details.get(GOES_ON), EXECUTOR_PROBLEM: None})


def inherited(earlier: Mapping[str, Any] | None, *, failed: bool, warning: str | None) -> dict[str, Any]:
    """What a new attempt's step takes over from the step of the same name in the attempt before.

    The digest is what the image is compared with; the warning belongs to the step that had failed.
    """
    saved = (earlier or {}).get("image_digest_at_save") or (earlier or {}).get("image_digest")
    return merged({}, {"image_digest_at_save": saved, "rerun_warning": warning if failed else None})


IMAGE = ("image_digest", "image_digest_warning", "image_digest_comparison_skipped")
"""Keys that say what the newest start of a step runs in."""


def image(details: Mapping[str, Any], digest: str | None, name: str) -> dict[str, Any]:
    """Changes that record what a step runs in, with a warning where that is not what saved its checkpoint."""
    saved = details.get("image_digest_at_save")
    if digest is None:
        skipped = f"the digest of {name} could not be read" if saved else None
        return {
            "image_digest": None,
            "image_digest_warning": None,
            "image_digest_comparison_skipped": skipped,
        }
    changed = saved is not None and not same_software(saved, digest)
    warning = (
        f"{name} changed since the checkpoint was saved: it was {saved}, it is {digest}; training goes on, "
        "but may behave differently or fail to load its checkpoint"
    )
    return {
        "image_digest": digest,
        "image_digest_warning": warning if changed else None,
        "image_digest_comparison_skipped": None,
    }

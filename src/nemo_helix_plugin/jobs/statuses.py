"""The statuses of a job, an attempt, a step or a task, and what each of them says.

The only place that groups statuses: a set anywhere else is a comprehension over these properties.
"""

from __future__ import annotations

from enum import StrEnum


class HelixJobStatus(StrEnum):
    """Status of a job, an attempt, a step or a task; one vocabulary for all four."""

    CREATION_PENDING = "creation_pending"
    """Visible, its resources are being prepared."""
    CREATED = "created"
    """Published; nobody has considered it yet."""
    QUEUED = "queued"
    """Considered, and waiting for capacity."""
    PENDING = "pending"
    """The workload exists but does not run yet."""
    ACTIVE = "active"
    PAUSING = "pausing"
    """A pause was asked for; the workload runs on towards its checkpoint."""
    PAUSED = "paused"
    """The workload has ended after its checkpoint; storage is kept."""
    RESUMING = "resuming"
    """A resume was asked for; waiting to be started again."""
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    ERROR = "error"
    DELETION_PENDING = "deletion_pending"
    """A delete was acknowledged; the record goes when everything is cleaned up."""

    @property
    def is_new(self) -> bool:
        """Whether nothing was tried yet: no capacity asked for, no workload started."""
        return self in _NEW

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for its turn, without a workload."""
        return self in _WAITING

    @property
    def holds_workload(self) -> bool:
        """Whether a workload may exist, with what it takes of the machine."""
        return self in _HOLDS_WORKLOAD

    @property
    def reports_progress(self) -> bool:
        """Whether the workload may run now, and write progress."""
        return self.holds_workload and self is not HelixJobStatus.PENDING

    @property
    def is_stopping(self) -> bool:
        """Whether the workload was asked to end, by a pause or a cancel."""
        return self in _STOPPING

    @property
    def is_terminal(self) -> bool:
        """Whether nothing happens any more unless somebody asks for it."""
        return self in _TERMINAL

    @property
    def is_settled(self) -> bool:
        """Whether it is paused or ended: without a workload, until somebody asks for something."""
        return self.is_terminal or self is HelixJobStatus.PAUSED

    @property
    def is_under_way(self) -> bool:
        """Whether it has a workload, or gets one as soon as there is capacity."""
        return not self.is_settled and self is not HelixJobStatus.DELETION_PENDING

    @property
    def can_go_on(self) -> bool:
        """Whether a resume or a rerun continues it, as long as its storage is kept."""
        return self in _CAN_GO_ON

    @property
    def is_plain(self) -> bool:
        """Whether it says all by itself; any other status raises the question why."""
        return self in _PLAIN

    @property
    def is_final(self) -> bool:
        """Whether it ended, and nothing continues it."""
        return self.is_terminal and not self.can_go_on


_S = HelixJobStatus
_NEW = frozenset({_S.CREATION_PENDING, _S.CREATED})
_WAITING = frozenset({_S.CREATED, _S.QUEUED, _S.RESUMING})
_HOLDS_WORKLOAD = frozenset({_S.PENDING, _S.ACTIVE, _S.PAUSING, _S.CANCELLING})
_STOPPING = frozenset({_S.PAUSING, _S.CANCELLING})
_TERMINAL = frozenset({_S.CANCELLED, _S.COMPLETED, _S.ERROR})
_PLAIN = frozenset({_S.ACTIVE, _S.PAUSED, _S.COMPLETED})
_CAN_GO_ON = frozenset({_S.PAUSED, _S.ERROR})

TERMINAL = frozenset(status for status in HelixJobStatus if status.is_terminal)
"""Statuses that end a job, an attempt, a step or a task."""

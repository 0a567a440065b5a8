"""What a decision about a step is made from, and what it can be: values, without a rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.controller import continuation
from nemo_helix_server.controller.continuation import AllocationEnd, AllocationHistory, ContinuationBudget
from nemo_helix_server.jobs.states import StatusEvent, StatusReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDeadlines:
    """The deadlines, in seconds."""

    before_active: float
    """How long a start may take until the command runs; 0 = as long as it likes."""
    creation: float
    cancel: float
    grace: float
    """What a stopped step gets between SIGTERM and SIGKILL."""
    continuation: ContinuationBudget = continuation.DEFAULT_BUDGET
    """What may be spent on going on after the place was taken away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What is wanted of a step; moments in seconds of the clock that `decide` is given the time of.

    That is one that nobody can set: a deadline is over when so much time has passed, whatever the date says.
    """

    name: str
    status: Status
    status_since: float
    started: bool = False
    """Whether there is a token: the step was accepted at least once."""
    pause_deadline: float = 0.0
    """0 = it cannot be paused."""
    pause_requested_at: float | None = None
    pause_reason: StatusReason = StatusReason.PAUSED_BY_USER
    control_seq: int = 0
    sent_seq: int | None = None
    """Number of the newest request that was given to this start; `None` = none ever was."""
    proof: str | None = None
    """What is missing of a checkpoint that covers the pause; `None` = nothing. Known once it has ended."""
    says_done: bool = False
    """Whether its training says that it is completed; what may be left to do is to write its results."""
    done: bool = False
    """Whether it says so and its results are there. Known once it has ended."""
    goes_on_from: int | None = None
    """The training step of the checkpoint from which it would go on; `None` = there is none. Known once a
    step has ended that was to be paused, or whose place was taken away."""
    allocation: AllocationEnd = continuation.UNKNOWN_END
    """How this start went. Known once it has ended otherwise than with success."""
    history: AllocationHistory = continuation.EMPTY_HISTORY
    """What the starts before this one came to."""
    leaves_because: str | None = None
    """Why its training says that it left without being asked to. Known likewise."""
    queued_at: float | None = None
    """When this start was last seen to wait in the queue of a scheduler; `None` = never."""
    queued_reason: str | None = None
    """What is noted that it waits for there."""
    last_step: int = 0
    """The last training step that it is known to have finished. Known likewise."""
    pause_space_shortage: str | None = None
    """Why a checkpoint would not fit on the disk; `None` = it would."""
    staleness: float = 0.0
    """Seconds of silence after which a running step counts as stuck; 0 = never."""
    last_sign_at: float | None = None

    @property
    def pausable(self) -> bool:
        """Whether it can go on from checkpoints."""
        return self.pause_deadline > 0


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make the job's directories."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Start it when its turn has come, or say what it waits for."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start what was accepted and has not been started."""


class RequestControl(StrEnum):
    """The requests that a workload can get."""

    PAUSE = "pause"
    GO_ON = "go_on"


@dataclass(frozen=True, slots=True)
class RepeatControl:
    """Give a request to the workload."""

    ask: RequestControl


@dataclass(frozen=True, slots=True)
class Stop:
    """Begin to end the run."""

    grace: float
    stacks: bool = False
    """Whether its processes first write to its log where they are."""
    fallback: str = field(default="", compare=False)
    """One sentence, where this takes the place of a request that was not answered; else empty."""


@dataclass(frozen=True, slots=True)
class Kill:
    """End the run and its shim at once."""

    fallback: str = field(default="", compare=False)
    """As that of `Stop`."""


@dataclass(frozen=True, slots=True)
class NoteQueue:
    """Note what a start waits for in the queue of a scheduler."""

    reason: str


@dataclass(frozen=True, slots=True)
class Move:
    """Let an event happen to the step."""

    event: StatusEvent
    why: str
    reason: StatusReason | None = None
    failed: bool = False
    """Whether the why is the step's error, to be explained by evidence."""
    history: AllocationHistory | None = None
    """What the starts so far came to, this one included; `None` = as before."""
    wait: float = 0.0
    """Seconds before the next start, when one follows."""
    goes_on: str | None = None
    """What the step does until then, when the job stays active meanwhile."""


Decision = Prepare | Admit | Start | RepeatControl | Stop | Kill | NoteQueue | Move

"""What is wanted of a training: the control file, else the service's answer, and the signals on top."""

from __future__ import annotations

from pathlib import Path

from nemo_trainer.contract import Control, Want, read_control
from nemo_trainer.requests.polling import StepPoll
from nemo_trainer.requests.signals import Flags
from nemo_trainer.requests.watched_file import WatchedFile


class ControlRequests:
    """Looked at after every step; costs one ``stat`` unless something has changed."""

    def __init__(
        self, control_file: Path | None, poll: StepPoll | None, flags: Flags, *, generation: int = 0
    ) -> None:
        """What is for an older ``generation`` than this is not meant."""
        self.seen: Control | None = None
        """The last request that was read from the control file."""
        self._file = WatchedFile(control_file)
        self._poll = poll
        self._flags = flags
        self._generation = generation
        self._answered = -1

    def look(self) -> bool:
        """Look at the control file; whether it holds another request than before."""
        nudged, self._flags.nudged = self._flags.nudged, False
        control = self._file.look(read_control, always=nudged)
        if control is None or 0 < control.generation < self._generation:
            return False
        changed = control != self.seen
        self.seen = control
        return changed

    @property
    def want(self) -> Want:
        """What is wanted, as of the last look; to stop outranks to pause, a signal cannot be withdrawn."""
        want: Want = "run"
        if self._poll is not None:
            want = self._poll.want
        elif self.seen is not None and not (
            self.seen.want == "checkpoint" and self.seen.seq <= self._answered
        ):
            want = self.seen.want
        return "pause" if self._flags.terminated and want != "stop" else want

    def saved(self) -> None:
        """A checkpoint was published: a request for one is answered."""
        if self.seen is not None:
            self._answered = self.seen.seq

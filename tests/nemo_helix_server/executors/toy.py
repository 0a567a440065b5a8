"""An executor of another package, as its author would write it: it imports what is documented."""

from nemo_helix_server.executors.base import (
    AlreadyStartedError,
    ExecutorKind,
    RunObservation,
    RunState,
)
from nemo_helix_server.settings import ProfileSettings


class ToySettings(ProfileSettings):
    """What its profiles have beside the usual keys."""

    queue: str = "short"


class Toy:
    """Runs nothing: a run waits at the first look, runs at the second, and has ended well at the third."""

    def __init__(self, settings):
        self.data_dir = settings.data_dir
        self.launches = {}
        self.looks = {}
        self.given_up = set()
        self.closed = False

    def start(self, run, launch):
        if run.token in self.launches or run.token in self.given_up:
            raise AlreadyStartedError(f"{run.token} was started before")
        self.launches[run.token] = launch

    def observe(self, runs):
        return {run.token: self._seen(run) for run in runs}

    def request_pause(self, run, *, seq, by, at):
        pass

    def withdraw_pause(self, run, *, seq, by, at):
        pass

    def stop(self, run, *, grace_seconds, stacks=False):
        self.given_up.add(run.token)

    def kill(self, run):
        self.given_up.add(run.token)

    def last_request(self, run):
        return None

    def close(self):
        self.closed = True

    def _seen(self, run):
        if run.token in self.given_up:
            return RunObservation(RunState.LOST, never_started=True, reason="was given up")
        if run.token not in self.launches:
            return RunObservation(RunState.ABSENT)
        look = self.looks[run.token] = self.looks.get(run.token, 0) + 1
        queue = self.launches[run.token].profile.queue
        if look == 1:
            return RunObservation(RunState.QUEUED, reason=f"waits in {queue}")
        if look == 2:
            return RunObservation(RunState.RUNNING, started_at=1.0)
        return RunObservation(
            RunState.EXITED, exit_status=0, started_at=1.0, ended_at=2.0, reason="exited with status 0"
        )


KIND = ExecutorKind(open=Toy, config=ToySettings)

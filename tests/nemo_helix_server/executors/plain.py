"""An executor of another package that runs commands, as its author would write it.

Its runs are children of the service, and end with it: afterwards they are lost. One whose runs go on without
the service has something beside them that writes their log and their end, as the shim of this machine does.
"""

import os
import signal
import subprocess
import threading
import time

from nemo_helix_server.executors.base import (
    AlreadyStartedError,
    ExecutorError,
    ExecutorKind,
    NotConfinedError,
    RunObservation,
    RunState,
)
from nemo_helix_server.logs.writer import Log, Pump, Redactor
from nemo_helix_server.settings import ProfileSettings
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_trainer import contract


class PlainSettings(ProfileSettings):
    """What its profiles have beside the usual keys; `Launch.profile` brings it to each start."""

    nice: int = 0


class Plain:
    """Runs each step as a process; what it knows of a run is in this object, and in the run's folder."""

    def __init__(self, settings):
        self.jobs = JobStorage(settings.data_dir)
        self.processes = {}
        self.seen = {}
        self.lock = threading.Lock()

    def start(self, run, launch):
        if launch.file_access is not None:
            raise NotConfinedError("the executor 'plain' cannot keep steps to their own files")
        folder = self.jobs.run_folder(run)
        # made once, by whichever call comes first: a start, or the stop of one that never began
        if not run_files.make_claim(folder, run_files.RunClaim(None, time.time())):
            raise AlreadyStartedError(f"{run.token} was started before")
        secrets = {name: value.reveal() for name, value in launch.secrets.items()}
        try:
            process = subprocess.Popen(
                ["nice", "-n", str(launch.profile.nice), *launch.argv],
                env={**launch.environment, **secrets},
                cwd=launch.working_directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self.seen[run.token] = RunObservation(RunState.EXITED, exit_status=127, reason=str(error))
            raise ExecutorError(f"{run.token} could not be started: {error}") from error
        log = Log(folder / run_files.OUTPUT, limit=launch.log_bytes)
        streams = {process.stdout.fileno(): "out", process.stderr.fileno(): "err"}
        pump = Pump(log, Redactor(secrets.values()), streams)
        pump.start()
        began = time.time()
        with self.lock:
            self.processes[run.token] = process
            self.seen[run.token] = RunObservation(RunState.RUNNING, started_at=began)
        threading.Thread(target=self._wait, args=(run, process, pump, began), daemon=True).start()

    def observe(self, runs):
        with self.lock:
            return {run.token: self.seen.get(run.token) or self._without(run) for run in runs}

    def request_pause(self, run, *, seq, by, at):
        self._control(run, contract.Control(seq, "pause", by, at))

    def withdraw_pause(self, run, *, seq, by, at):
        self._control(run, contract.Control(seq, "run", by, at))

    def stop(self, run, *, grace_seconds, stacks=False):
        folder = self.jobs.run_folder(run)
        folder.mkdir(parents=True, exist_ok=True)
        if run_files.make_claim(folder, run_files.RunClaim(None, time.time())):
            never = RunObservation(RunState.LOST, never_started=True, reason="was given up before it began")
            self.seen[run.token] = never
        elif self._signal(run, signal.SIGTERM):
            killer = threading.Timer(grace_seconds, self._signal, (run, signal.SIGKILL))
            killer.daemon = True
            killer.start()

    def kill(self, run):
        self._signal(run, signal.SIGKILL)

    def last_request(self, run):
        control = contract.read_control(self.jobs.run_folder(run) / run_files.CONTROL)
        return None if control is None else control.seq

    def close(self):
        with self.lock:
            processes = list(self.processes.values())
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)

    def _without(self, run):
        """Of a run of which this object knows nothing: one that a service before this one has claimed."""
        if run_files.read_claim(self.jobs.run_folder(run)) is None:
            return RunObservation(RunState.ABSENT)
        return RunObservation(RunState.LOST, reason="ended with the service")

    def _control(self, run, control):
        contract.write_control(self.jobs.run_folder(run) / run_files.CONTROL, control)

    def _signal(self, run, number):
        with self.lock:
            process = self.processes.get(run.token)
            if process is not None:
                os.killpg(process.pid, number)
            return process is not None

    def _wait(self, run, process, pump, began):
        # it is not reaped while its group may still be signalled
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self.lock:
            del self.processes[run.token]
            status = process.wait()
        pump.finish(5.0)
        process.stdout.close()
        process.stderr.close()
        ended = RunObservation(
            RunState.EXITED,
            exit_status=status if status >= 0 else 128 - status,
            signal=max(0, -status),
            started_at=began,
            ended_at=time.time(),
        )
        with self.lock:
            self.seen[run.token] = ended


KIND = ExecutorKind(open=Plain, config=PlainSettings, profiles=(("cpu", "plain"),))

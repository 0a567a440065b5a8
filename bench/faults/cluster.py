"""A real Slurm that nobody else uses, so that its nodes and daemons may be taken away."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UP, DOWN = ROOT / "scripts" / "slurm" / "up.sh", ROOT / "scripts" / "slurm" / "down.sh"
OPERATOR = 1
"""The number of the user ``daemon``, who is made an operator of this cluster."""
OLD_JOBS = 150
"""Jobs in accounting whose numbers are used a second time."""


def call(*words: object, timeout: float = 60, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one program; what the controller asks to be tried again is."""
    argv = [str(word) for word in words]
    end = time.monotonic() + 60
    while True:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout)
        again = "try again" in done.stderr or "nable to contact" in done.stderr
        if not done.returncode or not again or time.monotonic() > end:
            break
        time.sleep(0.5)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return done


class OwnSlurm:
    """The cluster: four nodes on this machine, its state in one folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        os.environ |= {
            "SLURM_LAB": str(folder),
            "SLURM_LAB_PORT": str(port),
            "SLURM_LAB_CGROUP": "0",
            "SLURM_CONF": str(folder / "etc" / "slurm.conf"),
        }

    def up(self) -> None:
        """Start what is not running, and wait until jobs are taken."""
        call(UP, timeout=300)

    def down(self) -> None:
        """Stop everything of it and remove its folder."""
        call(DOWN, "--wipe", timeout=120)

    def prepare(self) -> None:
        """An operator besides root, and records of older jobs under the numbers that come next."""
        call("sacctmgr", "-i", "add", "user", "daemon", "Account=lab", "Cluster=lab", check=False)
        call("sacctmgr", "-i", "modify", "user", "daemon", "set", "AdminLevel=Operator", check=False)
        words = ["sbatch", "--account=lab", "--mem=20M", "--output=/dev/null", "--wrap", "true"]
        for _ in range(OLD_JOBS):
            call(*words)
        while call("squeue", "-h").stdout:
            time.sleep(0.2)
        time.sleep(6)  # the controller gives new jobs to accounting every five seconds
        self._end("slurmctld", signal.SIGTERM)
        for path in (self.folder / "spool" / "ctld").iterdir():
            if path.is_file() and path.name != "clustername":
                path.unlink()
        self.up()

    def without(self, daemon: str, seconds: float) -> None:
        """Have ``slurmctld`` or ``slurmdbd`` away for some seconds.

        Accounting is killed. The controller is told to end: one that is killed forgets the jobs of the last
        seconds and gives their numbers to others, which no chain can mend.
        """
        with self._lock:
            self._end(daemon, signal.SIGTERM if daemon == "slurmctld" else signal.SIGKILL)
            time.sleep(seconds)
            self.up()

    def frozen(self, daemon: str, seconds: float) -> None:
        """Have a daemon that takes connections and answers nothing for some seconds."""
        with self._lock:
            pid = self._pid(daemon)
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                os.kill(pid, signal.SIGCONT)

    def lose(self, node: str, seconds: float) -> None:
        """Take a node down for some seconds."""
        call("scontrol", "update", f"nodename={node}", "state=down", "reason=fault")
        time.sleep(seconds)
        call("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    def as_operator(self, argv: Sequence[str]) -> None:
        """Call a command as another user than the owner of the jobs, who is an operator."""
        call("setpriv", f"--reuid={OPERATOR}", f"--regid={OPERATOR}", "--clear-groups", *argv)

    def _pid(self, daemon: str) -> int:
        return int((self.folder / "run" / f"{daemon}.pid").read_text())

    def _end(self, daemon: str, number: signal.Signals) -> None:
        pid = self._pid(daemon)
        os.kill(pid, number)
        while Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.1)

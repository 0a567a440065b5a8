"""The fake cluster's programs, answered by a thread that stays: a call costs milliseconds."""

from __future__ import annotations

import socketserver
import threading
from pathlib import Path

from nemo_slurm.testing.listings import ProgramCall
from nemo_slurm.testing.programs import PROGRAMS, answer
from nemo_slurm.testing.state import StoredCluster

CLIENT = """\
#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1
{{ printf '%s\\0' {name} "$PWD" "$#" "$@"; env -0; printf '\\0'; }} >&3
IFS= read -r -d '' -u 3 status
IFS= read -r -d '' -u 3 out
IFS= read -r -d '' -u 3 err
printf '%s' "$out"
printf '%s' "$err" >&2
exit "$status"
"""


class _Answers(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Words up to an empty one: program, folder, number of arguments, arguments, environment."""
        text = b""
        while not text.endswith(b"\0\0"):
            more = self.rfile.read1(65536)
            if not more:
                return
            text += more
        words = [word.decode("utf-8", "surrogateescape") for word in text[:-2].split(b"\0")]
        name, folder, count = words[0], words[1], int(words[2])
        argv = words[3 : 3 + count]
        environ = dict(word.partition("=")[::2] for word in words[3 + count :])
        state: StoredCluster = self.server.state  # type: ignore[attr-defined]
        with state.open() as model:
            done = answer(model, ProgramCall(name, argv, environ, folder))
        said = "".join(f"{part}\0" for part in (done.status, done.stdout, done.stderr))
        self.wfile.write(said.encode("utf-8", "surrogateescape"))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


class ResidentPrograms:
    """Takes the place of the programs in ``path``, a fake cluster's, until it is closed."""

    def __init__(self, path: Path) -> None:
        self._server = _Server(("127.0.0.1", 0), _Answers)
        self._server.state = StoredCluster(path.parent / "state.json")  # type: ignore[attr-defined]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        for name in PROGRAMS:
            (path / name).write_text(CLIENT.format(port=self._server.server_address[1], name=name))

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()

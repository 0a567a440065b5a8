"""Asking the Jobs service what is wanted of this step, for trainers that were given no control file."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable

from nemo_trainer.contract import Want

_TIMEOUT = 5.0
_WANTS: dict[str, Want] = {"pausing": "pause", "cancelling": "stop", "cancelled": "stop"}
"""What a status of the step means for the trainer; any other status means ``run``."""


class StepPoll:
    """Asks again and again in a thread of its own; the training loop only reads `want`."""

    def __init__(self, url: str, *, token: str | None = None, interval: float = 1.0) -> None:
        """``token`` is sent as a bearer token, to this address only; ``interval`` is in seconds."""
        self.want: Want = "run"
        self._url = url
        self._token = token
        self._interval = interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="baton-step-poll", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def close(self) -> None:
        """Ask no more; a question that is out may still take its time."""
        self._ended.set()

    def _run(self) -> None:
        ask = _asker(self._url, self._token)
        silent = False
        while not self._ended.is_set():
            try:
                status = ask()
                silent = False
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                # silence is not an answer: what was wanted last is still wanted
                if not silent:
                    sys.stderr.write(f"the Jobs service does not say what is wanted: {self._url}: {error}\n")
                silent = True
            else:
                self.want = _WANTS.get(status, "run")
            self._ended.wait(self._interval)


def _asker(url: str, token: str | None) -> Callable[[], str]:
    """A function that asks once and returns the status of the step."""
    from urllib import request  # noqa: PLC0415 - takes a while to load, and most trainers have a control file

    class Here(request.HTTPRedirectHandler):
        """Follows no redirection, so that the token goes nowhere else."""

        def redirect_request(self, *_arguments: object) -> None:
            return None

    opener = request.build_opener(request.ProxyHandler({}), Here)
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})

    def ask() -> str:
        with opener.open(request.Request(url, headers=headers), timeout=_TIMEOUT) as answer:  # noqa: S310 - http only
            return str(json.load(answer)["status"])

    return ask

"""What a worker of pytest-xdist says of its tests: in a quiet run, only what that shows; failures at once.

Starts, ends and set-ups that passed are two thirds of the events, and a tenth of the time of a run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest


def is_quiet(config: pytest.Config) -> bool:
    """Whether nothing was asked for that needs every event: names, durations, output, a report in a file."""
    options = config.option
    asked = options.durations is not None or options.xmlpath or set("PA") & set(options.reportchars)
    return options.verbose <= 0 and not asked


def is_shown(name: str, event: dict[str, Any]) -> bool:
    """Whether a quiet run shows anything of an event."""
    if name == "testreport":
        return event["data"]["when"] == "call" or event["data"]["outcome"] != "passed"
    return name not in ("logstart", "logfinish")


def send_what_is_shown(config: pytest.Config) -> None:
    """Let this process, if it is a worker of a quiet run, send no other events."""
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor" and is_quiet(config):
            plugin.sendevent = functools.partial(_send, plugin.sendevent)


def _send(send: Callable[..., None], name: str, **event: Any) -> None:
    if is_shown(name, event):
        send(name, **event)


def name_failures_at_once(config: pytest.Config) -> None:
    """Print each failure of a quiet run when it happens: a run that is ended from outside has no summary."""
    if not hasattr(config, "workerinput") and is_quiet(config):
        config.pluginmanager.register(FailuresAtOnce(config), "failures-at-once")


class FailuresAtOnce:
    """Prints one line for each failure, below the dots."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the test's name, the phase that failed, and the first line of what was wrong."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if not report.failed or terminal is None:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        message = (crash.message if crash else report.longreprtext).strip().partition("\n")[0]
        terminal.write("\n")
        terminal.write_line(f"FAILED in {report.when}: {report.nodeid}: {message}")

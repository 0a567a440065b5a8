"""Sending a notice: at most once each, and never so that what it is about fails.

That a notice goes out is written down before it goes out. A process that is killed in between has sent it or
not, and no other one sends it again: a person hears of an end once, or in that moment not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from nemo_gym import events
from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths, LinkPaths
from nemo_gym.notices.content import Notice, document
from nemo_gym.notices.recipients import Recipients, WebhookRecipient
from nemo_runs import proxies
from nemo_runs.clock import utc_text
from nemo_runs.durable.files import create_file
from nemo_runs.durable.journal import Journal
from nemo_runs.errors import RunsError
from nemo_runs.processes import trees
from nemo_runs.secret_refs import parse_reference, redact

COMMAND_SECONDS: Final = 30.0
"""What a command may take before it is ended."""
_OUTPUT_KEPT: Final = 64 << 10
"""Bytes of what a command prints that are passed on."""
_BLOCK: Final = 64 << 10
_PASSING_ON: Final = 5.0
"""Seconds for passing on what was printed before the end."""
_MARKER: Final = "NEMO_GYM_NOTICE"
"""The variable by which what a command has started is found."""
_PAUSES: Final = (1.0, 2.0)
"""Seconds before another try where no connection could be made: then nothing was sent."""


class NotSentError(GymError):
    """A notice did not reach somebody; the message says why, without addresses that are secret."""


@dataclass(frozen=True, slots=True)
class SendingContext:
    """What sending needs besides, so that tests can hand in their own."""

    environ: Mapping[str, str]
    report: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    seconds: Callable[[], float] = time.time
    """UTC."""


def tell(
    notice: Notice, recipients: Recipients, job: JobPaths, link: LinkPaths, around: SendingContext
) -> bool:
    """Send a notice to all recipients, unless that was done or begun before.

    Gives whether it was this call that sent it. What goes wrong is reported and put into the events; nothing
    is raised.
    """
    if notice.event not in recipients.on:
        return False
    at = utc_text(around.seconds())
    try:
        job.notified.mkdir(exist_ok=True)
        create_file(job.notified / notice.key, f"{at} {notice.event} {link.folder.name}\n".encode())
    except FileExistsError:
        return False
    except (OSError, RunsError) as error:
        around.report(f"no notice of the {notice.event} is sent, since that cannot be recorded: {error}")
        return False
    body = json.dumps(document(notice, job, link, at=at), ensure_ascii=False).encode() + b"\n"
    for how, send in _ways(recipients, job, around).items():
        try:
            send(body)
        except NotSentError as error:
            around.report(f"the notice of the {notice.event} was not sent by {how}: {error}")
            _note(job, link, "notice_failed", notice, how, str(error))
        else:
            _note(job, link, "notice_sent", notice, how, None)
    return True


def _note(job: JobPaths, link: LinkPaths, name: str, notice: Notice, how: str, error: str | None) -> None:
    job_id, _, restart = link.folder.name.rpartition(".")
    try:
        events.record(
            Journal(job.events),
            name,
            job_id=job_id,
            restart=int(restart),
            notice=notice.event,
            by=how,
            error=error,
        )
    except (OSError, RunsError, ValueError):
        return  # it was reported


def _ways(
    recipients: Recipients, job: JobPaths, around: SendingContext
) -> dict[str, Callable[[bytes], None]]:
    found: dict[str, Callable[[bytes], None]] = {}
    command, webhook = recipients.command, recipients.webhook
    if command is not None:
        hidden = recipients.variables
        environ = {name: value for name, value in around.environ.items() if name not in hidden}
        found["command"] = lambda body: run_command(command, body, cwd=str(job.job_dir), environ=environ)
    if webhook is not None:
        found["webhook"] = lambda body: post(webhook, body, around)
    return found


def run_command(command: str, body: bytes, *, cwd: str, environ: Mapping[str, str]) -> None:
    """Run shell text with the document on its standard input. Raises `NotSentError`.

    The beginning of what it prints goes to standard error. What it started is ended with it.
    """
    mark = (_MARKER, uuid.uuid4().hex)
    try:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=cwd,
            env=dict([*environ.items(), mark]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise NotSentError(f"it could not be started ({error.strerror})") from error
    identity = trees.identify(process.pid)
    assert process.stdin is not None
    assert process.stdout is not None
    serving = [
        threading.Thread(target=_feed, args=(process.stdin, body), daemon=True, name="notice"),
        threading.Thread(target=_pass_on, args=(process.stdout,), daemon=True, name="notice output"),
    ]
    for thread in serving:
        thread.start()
    try:
        process.wait(COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotSentError(f"it did not end within {COMMAND_SECONDS:g} s, and was ended") from None
    finally:
        trees.end_tree(identity, grace=0, marker=mark)
        process.wait()
        for thread in serving:
            thread.join(_PASSING_ON)
    if process.returncode:
        raise NotSentError(f"it ended with exit status {process.returncode}")


def _feed(file: IO[bytes], body: bytes) -> None:
    with contextlib.suppress(OSError), file:  # it need not read it
        file.write(body)


def _pass_on(file: IO[bytes]) -> None:
    """Write the beginning to standard error, and read the rest, so that the command never waits for us."""
    left = _OUTPUT_KEPT
    with contextlib.suppress(OSError), file:
        while block := os.read(file.fileno(), _BLOCK):
            os.write(2, block[:left])
            if left and len(block) > left:
                os.write(2, b"\n(more was printed, which is left out)\n")
            left = max(0, left - len(block))


def post(webhook: WebhookRecipient, body: bytes, around: SendingContext) -> None:
    """Post the document; a connection that cannot be made is tried again. Raises `NotSentError`."""
    url = _value(webhook.url, around.environ, "url")
    values = {
        name: _value(value, around.environ, f"headers.{name}") for name, value in webhook.headers.items()
    }
    hidden = [url, *values.values()]
    for pause in (*_PAUSES, None):
        try:
            _post(url, {"Content-Type": "application/json", **values}, body, webhook.timeout_seconds)
        except _NoConnectionError as error:
            if pause is None:
                raise NotSentError(redact(str(error), hidden)) from None
            around.sleep(pause)
        except NotSentError as error:
            raise NotSentError(redact(str(error), hidden)) from None
        else:
            return


class _NoConnectionError(NotSentError):
    """Nothing was sent."""


def _post(url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> None:
    """One attempt that takes no longer than ``timeout``, however slowly the other side answers."""
    failed: list[NotSentError] = []
    done = threading.Event()

    def send() -> None:
        try:
            _request(url, headers, body, timeout)
        except NotSentError as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=send, daemon=True, name="webhook").start()
    if not done.wait(timeout + 1):
        raise NotSentError(f"no answer within {timeout:g} s")
    if failed:
        raise failed[0]


def _request(url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> None:
    import httpx

    try:
        proxy = proxies.chosen(url, os.environ)
        by = None if proxy is None else proxy.url
        client = httpx.Client(proxy=by, trust_env=False, timeout=timeout)
        with client, client.stream("POST", url, content=body, headers=dict(headers)) as answer:
            status = answer.status_code  # the body is not read: it says nothing, and may never end
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise _NoConnectionError(f"no connection could be made ({error})") from None
    except httpx.TimeoutException:
        raise NotSentError(f"no answer within {timeout:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, RunsError, ValueError) as error:
        raise NotSentError(f"no answer ({error or type(error).__name__})") from None
    if not 200 <= status < 300:
        moved = ", and no redirect is followed" if 300 <= status < 400 else ""
        raise NotSentError(f"it was answered with status {status}{moved}")


def _value(text: str, environ: Mapping[str, str], where: str) -> str:
    reference = parse_reference(text, where=f"notify.webhook.{where}")
    if reference.kind == "lit":
        return reference.text
    value = environ.get(reference.text)
    if value is None:
        raise NotSentError(f"notify.webhook.{where}: the variable {reference.text} is not set")
    return value


def own_context(report: Callable[[str], None]) -> SendingContext:
    """Those of this process."""
    return SendingContext(os.environ, report)


def sealed_recipients(job: JobPaths) -> Path | None:
    """The newest file of recipients that was sealed with a job; ``None`` where nobody is to be notified."""
    found = sorted(job.sealed.glob(f"*/{job.recipients.name}"), key=lambda path: path.stat().st_mtime_ns)
    return found[-1] if found else None

"""Sending to a real server and a real command: once, without secrets where others read, never fatal."""

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nemo_gym.job_paths import JobPaths
from nemo_gym.notices import sending
from nemo_gym.notices.content import end_notice
from nemo_gym.notices.recipients import Recipients, WebhookRecipient, load_recipients
from nemo_gym.notices.sending import SendingContext, tell
from nemo_runs.durable.journal import read_journal
from nemo_runs.processes import process_table

SECRET = "Bearer sesame-3131"


class Hook:
    """A small server that keeps what it was sent."""

    def __init__(self, status=200, delay=0.0):
        self.received, self.headers = [], []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                time.sleep(delay)
                hook.headers.append(dict(self.headers))
                hook.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook/very-secret-path"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.005}).start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def job(tmp_path):
    paths = JobPaths(tmp_path / "gym-job-1" / "gpqa")
    paths.link("7").folder.mkdir(parents=True)
    paths.link("7").end.write_text("ended 0 none\n")
    return paths


class Told:
    def __init__(self, job, environ=None):
        self.job, self.said, self.slept = job, [], []
        self.environ = {"PATH": "/usr/bin:/bin", **(environ or {})}

    def tell(self, recipients):
        around = SendingContext(self.environ, self.said.append, sleep=self.slept.append)
        link = self.job.link("7")
        return tell(end_notice(self.job, link), recipients, self.job, link, around)

    def events(self):
        return [(event["event"], event["by"]) for event in read_journal(self.job.events)]


def of(url, **more):
    return Recipients(frozenset({"end"}), webhook=WebhookRecipient(url, **more))


def test_a_webhook_gets_the_document_with_its_secret_header_once(job):
    told = Told(job, {"HOOK_TOKEN": SECRET})
    with Hook() as hook:
        recipients = of(hook.url, headers={"Authorization": "host:HOOK_TOKEN"})
        assert told.tell(recipients)
        assert not told.tell(recipients)  # another job, or the same one started again
    [document] = hook.received
    assert (document["event"], document["state"], document["benchmark"]) == ("end", "succeeded", "gpqa")
    assert hook.headers[0]["Authorization"] == SECRET
    assert hook.headers[0]["Content-Type"] == "application/json"
    assert (told.said, told.events()) == ([], [("notice_sent", "webhook")])
    assert SECRET not in "".join(path.read_text() for path in job.job_dir.rglob("*") if path.is_file())


def test_a_command_gets_the_document_on_its_standard_input_and_no_secret(job, tmp_path):
    told = Told(job, {"HOOK_URL": "http://127.0.0.1:9/x", "OUT": str(tmp_path / "out")})
    recipients = Recipients(
        frozenset({"end"}),
        'cat >"$OUT"; printf "%s" "${HOOK_URL-none}" >"$OUT.env"; cat /proc/$$/cmdline >"$OUT.argv"',
        WebhookRecipient("host:HOOK_URL"),
    )
    assert told.tell(recipients)
    assert json.loads((tmp_path / "out").read_text())["gym_job_id"] == "gym-job-1"
    assert (tmp_path / "out.env").read_text() == "none"
    assert "gym-job-1" not in (tmp_path / "out.argv").read_text()


def test_what_goes_wrong_is_said_without_the_secret_and_changes_nothing(job):
    told = Told(job, {"HOOK_TOKEN": SECRET})
    with Hook(status=500) as hook:
        told.environ["HOOK_URL"] = hook.url
        assert told.tell(of("host:HOOK_URL", headers={"Authorization": "host:HOOK_TOKEN"}))
        assert len(hook.received) == 1
    assert told.said == ["the notice of the end was not sent by webhook: it was answered with status 500"]
    assert told.events() == [("notice_failed", "webhook")]


@pytest.mark.parametrize(
    ("recipients", "sentence"),
    [
        (Recipients(frozenset({"end"}), "exit 3"), "by command: it ended with exit status 3"),
        (of("host:NOT_SET"), "notify.webhook.url: the variable NOT_SET is not set"),
        (of("http://127.0.0.1:9/very-secret-path"), "no connection could be made"),
    ],
)
def test_nobody_who_can_be_reached_is_an_error_of_the_job(job, recipients, sentence):
    told = Told(job)
    assert told.tell(recipients)
    [said] = told.said
    assert sentence in said
    assert "very-secret-path" not in said
    assert told.slept == ([1.0, 2.0] if "connection" in sentence else [])


def test_a_server_that_does_not_answer_is_waited_for_no_longer_than_was_said(job):
    told = Told(job)
    with Hook(delay=2.0) as hook:
        assert told.tell(of(hook.url, timeout_seconds=0.2))
    assert "no answer within 0.2 s" in told.said[0]


def answering(write):
    """A server that takes one request and lets ``write(connection)`` answer it; its address."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = server.accept()
        with server, connection, contextlib.suppress(OSError):
            connection.recv(65536)
            write(connection)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}/very-secret-path"


def test_an_endless_answer_is_not_read_and_its_status_counts(job):
    sent = []

    def endless(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            sent.append(connection.send(b"x" * 65536))

    told = Told(job)
    assert told.tell(of(answering(endless)))
    assert told.said == []
    assert sum(sent) < 64 << 20


def test_a_redirect_is_not_followed(job):
    told = Told(job)
    answer = b"HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:9/secret\r\nContent-Length: 0\r\n\r\n"
    assert told.tell(of(answering(lambda connection: connection.sendall(answer))))
    assert told.said[0].endswith("it was answered with status 307, and no redirect is followed")


@pytest.mark.slow
def test_what_a_command_prints_is_passed_on_to_a_bound_and_what_it_started_is_ended(
    job, tmp_path, capfd, monkeypatch
):
    told = Told(job, {"OUT": str(tmp_path)})
    leaves = 'setsid sleep 600 & echo $! >"$OUT/left"; head -c 3000000 /dev/zero; exec sleep 600'
    monkeypatch.setattr(sending, "COMMAND_SECONDS", 1.0)
    assert told.tell(Recipients(frozenset({"end"}), leaves))
    assert told.said == [
        "the notice of the end was not sent by command: it did not end within 1 s, and was ended"
    ]
    assert 60_000 < len(capfd.readouterr().err) < 70_000
    entry = process_table.read_entry(int((tmp_path / "left").read_text()))
    assert entry is None or entry.ended


def test_a_command_that_reads_nothing_and_leaves_something_running_is_no_failure(job, capfd):
    told = Told(job)
    assert told.tell(Recipients(frozenset({"end"}), "exec <&-; echo sent; sleep 600 &"))
    assert (told.said, capfd.readouterr().err) == ([], "sent\n")


def test_a_process_that_was_killed_while_sending_has_told_or_not_and_no_other_tells_again(job):
    def killed(_body_sent):
        raise KeyboardInterrupt

    told = Told(job)
    around = SendingContext(told.environ, told.said.append, sleep=killed)
    link = job.link("7")
    with pytest.raises(KeyboardInterrupt):
        tell(end_notice(job, link), of("http://127.0.0.1:9/"), job, link, around)
    with Hook() as hook:
        assert not told.tell(of(hook.url))
    assert hook.received == []


def test_only_what_is_asked_for_is_told(job):
    assert not Told(job).tell(Recipients(frozenset({"failure"}), "exit 3"))
    assert not job.notified.exists()


def test_the_sealed_file_is_read_as_it_was_written(tmp_path):
    from nemo_gym.orchestration.config.notify_schema import NotifyConfig

    config = NotifyConfig(webhook={"url": "host:URL", "headers": {"X-Key": "host:KEY"}}, on=["end"])
    (tmp_path / "notify.json").write_text(config.model_dump_json())
    found = load_recipients(tmp_path / "notify.json")
    assert found == of("host:URL", headers={"X-Key": "host:KEY"}, timeout_seconds=10)
    assert found.variables == ["URL", "KEY"]

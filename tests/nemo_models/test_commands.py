"""The commands as a person calls them, with a real engine: answers, files and what is said of both."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests import hub_server
from tests.nemo_models.conftest import NEMO, Nemo
from tests.trained_models import QUESTIONS, TrainedModels

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DEADLINE = 180.0
GREEDY = ("--temperature", "0", "--max-tokens", "12")


def test_each_line_of_a_pipe_is_a_question_of_its_own_for_both_models(
    nemo: Nemo, trained: TrainedModels, tmp_path: Path
) -> None:
    arguments = ["models", "chat", str(trained.adapter), "--with-base", *GREEDY, "-f", "raw"]
    done = nemo(*arguments, "--save", str(tmp_path / "said.jsonl"), given="\n".join([*QUESTIONS, ""]))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["question"] for row in rows] == list(QUESTIONS)
    for name in ("base", "adapter"):
        found = [one["answer"] for row in rows for one in row["answers"] if one["model"] == name]
        assert found == list(trained.answers[name])
    saved = [json.loads(line)["messages"] for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [[one["role"] for one in said] for said in saved] == [["user", "assistant"]] * 3


class Terminal:
    """A program on a terminal of its own, and what it has shown."""

    def __init__(self, *arguments: str) -> None:
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(arguments[0], arguments)
        self.shown = ""

    def until(self, text: str, count: int = 1) -> None:
        end = time.monotonic() + DEADLINE
        while self.shown.count(text) < count:
            assert time.monotonic() < end, self.shown
            if select.select([self._end], [], [], 0.2)[0]:
                self.shown += os.read(self._end, 1 << 16).decode(errors="replace")

    def type(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def status(self) -> int:
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self._end)
                return os.waitstatus_to_exitcode(status)
            if select.select([self._end], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # nobody writes any more
                    self.shown += os.read(self._end, 1 << 16).decode(errors="replace")
        raise AssertionError(self.shown)


def test_on_a_terminal_ctrl_c_ends_the_answer_and_the_conversation_goes_on(
    machine: None, trained: TrainedModels
) -> None:
    long = ("--temperature", "1", "--max-tokens", "480", "--seed", "1")
    terminal = Terminal(NEMO, "models", "chat", str(trained.adapter), *long)
    try:
        terminal.until("> ")
        terminal.type(b"/help\n")
        terminal.until("there is no command /help")
        terminal.type(b"Say much.\n")
        terminal.until("Say much.")
        time.sleep(0.3)  # into the answer; an interruption before its first word counts alike
        terminal.type(b"\x03")
        terminal.until("the answer is as far as it came")
        terminal.type(b"/new\n")
        terminal.until("a new conversation.")
        terminal.until("> ", 4)  # keys before the prompt are the terminal's, and not read as such
        terminal.type(b"\x04")
        assert terminal.status() == 0
    finally:
        if Path(f"/proc/{terminal.pid}").exists():
            os.kill(terminal.pid, signal.SIGKILL)


@contextmanager
def serving(*arguments: str, **variables: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    argv = [NEMO, "models", "serve", *arguments, "--port", "0", "--json", "--until-stdin-ends"]
    pipe, environ = subprocess.PIPE, {**os.environ, **variables}
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            found = json.loads(line)
            assert found["api_key"] is None  # it was given
            with httpx.Client(base_url=found["url"], timeout=120, trust_env=False) as client:
                yield client, process
            process.stdin.close()  # as when the process that holds it was killed
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_a_served_model_answers_as_transformers_does_to_who_has_the_key(
    machine: None, trained: TrainedModels
) -> None:
    key = "the-key-of-this-test"
    with serving(str(trained.adapter), "--with-base", NEMO_GYM_SERVICE_API_KEY=key) as (client, process):
        assert client.get("models").status_code == 401
        client.headers["Authorization"] = f"Bearer {key}"
        assert [one["id"] for one in client.get("models").json()["data"]] == ["adapter", "base"]
        for name in ("adapter", "base", "adapter"):
            body = {"model": name, "temperature": 0, "max_tokens": 12}
            messages = [{"role": "user", "content": QUESTIONS[0]}]
            answer = client.post("chat/completions", json={**body, "messages": messages}).json()
            assert answer["choices"][0]["message"]["content"] == trained.answers[name][0]
        body = {"model": "adapter", "messages": messages, "max_tokens": 12, "seed": 4}
        texts = {
            client.post("chat/completions", json=body).json()["choices"][0]["message"]["content"]
            for _ in range(2)
        }
        assert len(texts) == 1
        assert client.post("chat/completions", json={**body, "model": "other"}).status_code == 400
        assert client.post("chat/completions", content=b"{").status_code == 400
        assert client.post("embeddings", json={}).status_code == 404
        long = {**body, "max_tokens": 480, "stream": True}
        with client.stream("POST", "chat/completions", json=long) as reply:
            next(reply.iter_lines())  # and no more: the server goes on with the next request
        answer = client.post("chat/completions", json={**body, "max_tokens": 1}).json()
        assert answer["usage"]["completion_tokens"] == 1
        assert key.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert key not in process.stderr.read()


LOGITS = """
import json, sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
base, adapter, merged = sys.argv[1:]
ids = torch.arange(40)[None] * 7 % 500
tuned = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter).eval()
one = tuned(input_ids=ids).logits
other = AutoModelForCausalLM.from_pretrained(merged).eval()(input_ids=ids).logits
print(json.dumps(float((one - other).abs().max() / one.abs().max())))
"""


def test_merged_weights_have_the_logits_of_base_and_adapter(
    nemo: Nemo, trained: TrainedModels, tmp_path: Path
) -> None:
    from tests import engines

    done = json.loads(
        nemo("models", "export", str(trained.adapter), "--to", "merged", "-o", "whole", "--json").stdout
    )
    assert done["difference"] <= done["tolerance"] == 1e-4
    argv = [engines.engine_python("trl"), "-c", LOGITS, trained.base, trained.adapter, tmp_path / "whole"]
    said = subprocess.run(argv, env=engines.engine_environ(), capture_output=True, text=True, check=True)
    assert float(said.stdout.splitlines()[-1]) < 1e-4
    record = json.loads((tmp_path / "whole" / "nemo-export.json").read_text())
    weights = (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert record["files"]["model.safetensors"] == hashlib.sha256(weights).hexdigest()
    assert record["base_model"] == str(trained.base)
    again = nemo("models", "export", str(trained.adapter), "--to", "merged", "-o", "whole", status=1)
    assert "whole is there already" in again.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_what_gguf_covers_is_said_first_and_the_file_has_a_digest_beside_it(
    nemo: Nemo, trained: TrainedModels, tmp_path: Path
) -> None:
    arguments = ["models", "export", str(trained.adapter), "--to", "gguf", "-o", "small.gguf"]
    done = nemo(*arguments, "--quantize", "q4_0")
    assert done.stderr.splitlines()[0] == (
        f"nemo: GGUF files are written of llama, qwen2, qwen3; {trained.adapter} is of the type qwen3."
    )
    digest = hashlib.sha256((tmp_path / "small.gguf").read_bytes()).hexdigest()
    assert (tmp_path / "small.gguf.sha256").read_text() == f"{digest}  small.gguf\n"


def test_a_push_is_private_goes_on_after_an_interruption_and_holds_no_secret(
    nemo: Nemo, trained: TrainedModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results.json"
    row = {"benchmark": "arithmetic", "score": 0.75, "low": 0.7, "high": 0.8, "measured": 40, "expected": 40}
    results.write_text(json.dumps({"results": [row]}))
    (trained.adapter / "notes.env").write_text("TOKEN=of-nobody")
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    arguments = ["models", "push", str(trained.adapter), "ann/sums", "--results", str(results)]
    assert "there is no token of the hub: set HF_TOKEN" in nemo(*arguments, status=1).stderr
    with hub_server.running() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_TOKEN", hub_server.TOKEN)
        hub.break_off_after = 0
        broken = nemo(*arguments, status=1)
        assert "nothing was committed" in broken.stderr
        assert hub_server.TOKEN not in broken.stderr + broken.stdout
        assert hub.files["ann/sums"] == {}
        hub.break_off_after = None
        nemo(*arguments)
        assert hub.private == {"ann/sums": True}
        assert len(hub.received) == 1
        nemo(*arguments)
        assert len(hub.received) == 1  # what the hub has is not sent again
        hub.private["ann/open"] = False
        refused = nemo("models", "push", str(trained.adapter), "ann/open", status=1)
        assert "the repository ann/open is public: --public agrees" in refused.stderr
    files = hub.files["ann/sums"]
    assert {"README.md", "adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= set(files)
    assert "notes.env" not in files
    everything = b"".join(files.values())
    assert str(tmp_path).encode() not in everything
    assert str(trained.base.parent).encode() not in everything
    assert b"| arithmetic | 75.0% | 70.0% to 80.0% | 40 of 40 |" in files["README.md"]

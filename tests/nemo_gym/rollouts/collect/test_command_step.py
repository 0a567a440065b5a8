"""Another program as a benchmark: started, interrupted, resumed, ended with all that it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.mock_server import MockServer

from nemo_gym import errors
from nemo_gym.cli.main import _status
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.collect.command_step import MARKER, CommandStep
from nemo_gym.rollouts.collect.console import Console
from nemo_gym.rollouts.collect.drain import Drain
from nemo_gym.rollouts.collect.ends import CollectionEnd
from nemo_gym.rollouts.collect.run import CollectorRun
from nemo_gym.rollouts.run_config.schema import RunConfig, load_run_config
from nemo_gym.rollouts.scores.certificate import certify
from nemo_runs.clock import SystemClock
from nemo_runs.processes import process_table, trees

pytestmark = pytest.mark.services

HARNESS = """\
import json, os, subprocess, sys, time, urllib.request
from pathlib import Path
outputs = Path(os.environ["NEMO_GYM_OUTPUTS"])
(outputs / "seen.json").write_text(json.dumps([sys.argv[1:], dict(os.environ)]))
if "fail" in sys.argv:
    print("cannot go on with " + os.environ["OPENAI_API_KEY"])
    sys.exit(3)
if "child" in sys.argv:
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    (outputs / "child").write_text(str(child.pid))
kept = outputs / "kept.jsonl"
have = len(kept.read_text().splitlines()) if kept.exists() else 0
for number in range(have, int(os.environ.get("COUNT", 3))):
    body = {"model": os.environ["NEMO_GYM_POLICY_MODEL_NAME"]}
    body["messages"] = [{"role": "user", "content": f"{number} + 1?"}]
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    answer = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
    with kept.open("a") as file:
        sample = {"id": number, "input": f"{number} + 1?", "answer": answer}
        file.write(json.dumps({**sample, "score": answer.endswith(str(number + 1))}) + "\\n")
(outputs / "results.jsonl").write_text(kept.read_text())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("NEMO_GYM_DRAIN_FILE", "NEMO_GYM_LINK", "NEMO_GYM_COLLECTED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harness.py").write_text(HARNESS)
    return tmp_path


def config(server: MockServer, *words: str, resume: bool = False, **command: Any) -> RunConfig:
    results = {"path": "results.jsonl", "samples": "", "input": "input", "answer": "answer"}
    whole = {
        "argv": [sys.executable, "harness.py", *words],
        "files": ["harness.py"],
        "results": results,
        **command,
    }
    Path("config.yaml").write_text(yaml.safe_dump({"benchmark": {"name": "theirs", "command": whole}}))
    base = {
        "policy_base_url": server.base_url,
        "policy_model_name": "mock",
        "output_jsonl_fpath": "out/rollouts.jsonl",
        "resume_from_cache": resume,
        "config_paths": ["config.yaml"],
        "drain_margin_s": 30,
    }
    return load_run_config([], None, [], search_dirs=[], base=base, cwd=Path.cwd(), user_env=False).config


def step(config: RunConfig, drain: Drain | None = None, **environ: str) -> CommandStep:
    assert config.benchmark.command is not None
    return CommandStep(
        config,
        config.benchmark.command,
        drain=drain or Drain({}),
        console=Console(),
        clock=SystemClock(),
        environ={**os.environ, **environ},
    )


def seen(number: int = 1) -> tuple[list[str], dict[str, str]]:
    arguments, environ = json.loads(Path(f"out/rollouts_command/outputs-{number}/seen.json").read_bytes())
    return arguments, environ


def when(happened: Callable[[], bool], then: Callable[[], object]) -> threading.Thread:
    """Do something once something has happened."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while not happened() and time.monotonic() < deadline:
            time.sleep(0.02)
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_command_ends_with_a_collector_that_is_killed(folder: Path) -> None:
    with MockServer(faults=["hang*"]) as server:
        config(server, "child", stop_signal="INT")
        argv = [str(Path(sys.executable).with_name("gym")), "eval", "run", "--config", "config.yaml"]
        argv += ["--model", "mock", "--model-url", server.base_url, "-o", "out/rollouts.jsonl"]
        argv += ["drain_margin_s=1"]
        child = Path("out/rollouts_command/outputs-1/child")
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as collector:
            when(lambda: child.exists() and bool(child.read_text()), collector.kill).join()
    marked = trees.marked(MARKER, seen()[1][MARKER])
    when(lambda: not trees.marked(MARKER, seen()[1][MARKER]), lambda: None).join()
    assert (len(marked) > 0, trees.marked(MARKER, seen()[1][MARKER])) == (True, [])


def test_its_samples_are_rollouts_that_are_counted_certified_and_not_asked_for_again(folder: Path) -> None:
    with MockServer() as server:
        asked = config(server)
        ended = CollectorRun(asked, drain=Drain({}), console=Console(), clock=SystemClock()).execute()
        resumed = config(server, resume=True)
        again = CollectorRun(resumed, drain=Drain({}), console=Console(), clock=SystemClock()).execute()
        assert server.requests == 3
    assert (ended.end.state, again.end.state) == ("complete", "complete")
    assert ended.summary is not None
    assert ended.summary.score is not None
    assert (ended.summary.score.mean, ended.summary.coverage.measured) == (1.0, 3)
    assert ended.collected is not None
    assert (ended.collected.counts.new, ended.collected.counts.expected) == (3, 3)
    assert certify(RolloutPaths(folder / "out" / "rollouts.jsonl")).valid
    arguments, environ = seen()
    assert arguments == []
    assert environ["OPENAI_BASE_URL"] == environ["NEMO_GYM_POLICY_BASE_URL"] == asked.policy_base_url
    assert environ["OPENAI_API_KEY"] == "dummy"
    manifest = json.loads((folder / "out" / "rollouts_manifest.json").read_bytes())
    assert manifest["model"]["name"] == "mock"


@pytest.mark.parametrize(("resume_args", "outputs"), [(["--go-on"], 1), (None, 2)])
def test_one_that_was_asked_to_end_goes_on_or_starts_over(
    resume_args: list[str] | None, outputs: int
) -> None:
    with MockServer(faults_for={"2 + 1": ["hang"]}) as server:
        drain = Drain({})
        drain.install()
        try:
            thread = when(lambda: server.requests > 2, lambda: os.kill(os.getpid(), signal.SIGTERM))
            ended = step(config(server, resume_args=resume_args), drain).run()
            thread.join()
        finally:
            drain.restore()
        assert isinstance(ended, CollectionEnd)
        assert (ended.status, ended.state) == (75, "drained")
        goes_on = "goes on from there" if resume_args else "starts it over"
        assert ended.sentence.endswith(f"--resume {goes_on}.")
        with pytest.raises(errors.ResumeRefusedError, match="its command was begun already; add --resume"):
            step(config(server, resume_args=resume_args)).run()
        server.released.set()
        before = server.requests
        found = step(config(server, resume=True, resume_args=resume_args)).run()
        assert not isinstance(found, CollectionEnd)
        assert server.requests - before == (1 if resume_args else 3)
    assert len(found.results.questions) == 3
    assert seen(outputs)[0] == (resume_args or [])


def test_one_that_fails_is_said_with_its_last_words_and_without_its_key() -> None:
    with MockServer(api_key="sk-secret") as server:
        asked = config(server, "fail").model_copy(update={"policy_api_key": "host:KEY"})
        with pytest.raises(errors.GymError) as failed:
            step(asked, KEY="sk-secret").run()
    assert "the command ended with status 3: cannot go on with" in str(failed.value)
    assert "log-1.txt has all that it said, and --resume starts it over." in str(failed.value)
    assert "sk-secret" not in str(failed.value)
    assert seen()[1]["OPENAI_API_KEY"] == "sk-secret"


def test_what_it_has_left_running_is_ended_and_a_changed_file_is_another_run(folder: Path) -> None:
    with MockServer() as server:
        step(config(server, "child")).run()
        child = int((folder / "out/rollouts_command/outputs-1/child").read_text())
        entry = process_table.read_entry(child)
        assert entry is None or entry.ended
        (folder / "harness.py").write_text(HARNESS + "\n")
        with pytest.raises(errors.ResumeRefusedError, match=r"files\..*harness\.py: "):
            step(config(server, "child", resume=True)).run()


def test_what_a_killed_collector_has_left_is_ended_before_the_next_start(folder: Path) -> None:
    with MockServer(faults_for={"1 + 1": ["hang"]}) as server:
        config(server, resume_args=[])
        argv = ["--config", "config.yaml", "--model", "mock", "--model-url", server.base_url]
        gym = [
            sys.executable,
            "-c",
            "from nemo_gym.cli.main import main; main()",
            "eval",
            "run",
            *argv,
            "--output",
            "out/rollouts.jsonl",
        ]
        collector = subprocess.Popen(gym, stderr=subprocess.DEVNULL, start_new_session=True)

        def kill() -> None:
            for pid in process_table.descendants_of(collector.pid):
                if b"end_when_gone" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)  # the shell that would end it
            collector.kill()

        when(lambda: server.requests > 1, kill).join()
        collector.wait()
        mark = ("NEMO_GYM_COMMAND_OF", seen()[1]["NEMO_GYM_COMMAND_OF"])
        assert process_table.with_variable(*mark) != []
        server.released.set()
        found = step(config(server, resume=True, resume_args=[])).run()
        assert not isinstance(found, CollectionEnd)
        assert process_table.with_variable(*mark) == []
    assert len(found.results.questions) == 3


@pytest.mark.parametrize(
    ("settings", "phrase"),
    [
        ({"limit": 2}, "limit: .*benchmark.command.limit_args says how"),
        ({"until": {"half_width": 0.1}}, "until: the command of"),
        ({"num_repeats": 2}, "num_repeats: the command of the benchmark theirs asks the model itself"),
        ({"responses_create_params": {"temperature": 0.5}}, "responses_create_params: "),
    ],
)
def test_settings_that_it_would_not_obey_are_refused(settings: dict[str, Any], phrase: str) -> None:
    with MockServer() as server:
        asked = RunConfig.model_validate({**config(server).to_plain(), **settings})
        with pytest.raises(errors.ConfigError, match=phrase):
            step(asked).run()
        assert server.requests == 0


def test_a_program_that_is_not_there_is_named_and_reverify_grades_by_another_mapping(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with MockServer() as server:
        with pytest.raises(errors.ConfigError, match="no-such-program cannot be started in"):
            step(config(server, argv=["no-such-program"])).run()
        asked = config(server).model_copy(
            update={"output_jsonl_fpath": Path("two/rollouts.jsonl").absolute()}
        )
        CollectorRun(asked, drain=Drain({}), console=Console(), clock=SystemClock()).execute()
    config(server, results={"path": "results.jsonl", "samples": "", "best": 2})
    assert _status(["eval", "reverify", "--rollouts", "two/rollouts.jsonl", "--config", "config.yaml"]) == 0
    assert "score      50.0%" in capsys.readouterr().out

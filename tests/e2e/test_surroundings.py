"""Both programs in surroundings that people have: odd locales, streams, folders, homes and proxies."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mock_server import MockServer

import nemo_gym

pytestmark = pytest.mark.e2e
BIN = Path(sys.executable).parent
GYM, NEMO = str(BIN / "gym"), str(BIN / "nemo")
LOCALES = [
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "xx_XX.no-such-locale"},
]
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def environ(tmp_path):
    """An environment with folders of its own and no proxy."""
    names = {*PROXIES, *(name.upper() for name in PROXIES)}
    found = {name: value for name, value in os.environ.items() if name not in names}
    return found | {
        name: str(tmp_path / name.lower())
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    }


def run(words, environ, **changes):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | changes
    return subprocess.run(words, env=environ, text=True, timeout=180, check=False, errors="replace", **pipes)


@pytest.fixture
def submission(tmp_path):
    """A submit file whose one job does nothing."""
    path = tmp_path / "submit.yaml"
    benchmark = {"command": "true"}
    config = {
        "compute": {"here": {"type": "local", "walltime": "00:01:00"}},
        "driver": {"benchmarks": {"sums": benchmark}},
        "job": {"output_path": str(tmp_path / "runs")},
    }
    path.write_text(json.dumps(config))
    return ["eval", "submit", "-c", str(path), "--follow"]


def runs(tmp_path):
    folder = tmp_path / "runs"
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("locale", LOCALES, ids=lambda value: " ".join(value.values()))
def test_no_submission_fails_for_an_arrow(environ, submission, tmp_path, locale):
    done = run([GYM, *submission], environ | locale)
    assert done.returncode == 0, done.stderr
    assert "submitted sums" in done.stdout
    assert "Error" not in done.stderr
    assert len(runs(tmp_path)) == 1
    for words in (["job", "list"], ["job", "status", "latest"], ["eval", "--help"]):
        again = run([GYM, *words], environ | locale)
        assert (again.returncode, "unexpected" in again.stderr) == (0, False)


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("stream", ["full", "closed", "left"])
def test_a_submission_that_cannot_be_told_is_a_submission(environ, submission, tmp_path, stream, options):
    words = [GYM, *submission, *options]
    if stream == "full":
        with open("/dev/full", "w") as full:
            done = run(words, environ, stdout=full)
        said = (
            "gym: standard output could not be written (No space left on device); what was asked for is done."
        )
        assert said in done.stderr
    elif stream == "closed":
        done = run(["bash", "-c", '"$@" >&-', "bash", *words], environ)
    else:
        reader, writer = os.pipe()
        os.close(reader)
        done = run(words, environ, stdout=writer)
        os.close(writer)
    assert done.returncode == 0, done.stderr
    record = json.loads((runs(tmp_path)[0] / "gym-job.json").read_bytes())
    assert record["benchmarks"][0]["job_id"] == "local-1"


def test_a_list_that_cannot_be_written_is_a_failure(environ):
    for words in ([GYM, "list", "benchmarks"], [NEMO, "config", "view", "--help"]):
        with open("/dev/full", "w") as full:
            done = run(words, environ, stdout=full)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].endswith(": No space left on device (standard output).")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("stream", ["full", "closed"])
def test_a_setting_of_nemo_is_made_whatever_can_be_told(environ, stream):
    words = [NEMO, "config", "set", "--base-url", "http://127.0.0.1:1"]
    shell = {"full": '"$@" >/dev/full 2>&1', "closed": '"$@" >&- 2>&-'}[stream]
    assert run(["bash", "-c", shell, "bash", *words], environ).returncode == 0
    assert "http://127.0.0.1:1" in run([NEMO, "config", "view"], environ).stdout


def test_a_home_that_cannot_be_written_is_said_before_anything_is_queued(environ, submission, tmp_path):
    bare = {name: value for name, value in environ.items() if not name.startswith("XDG_")}
    done = run([GYM, *submission], bare | {"HOME": "/proc/nowhere"})
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == (
        "gym: /proc/nowhere/.local/state/nemo-gym/local-jobs, where the numbers of local jobs are claimed, "
        "cannot be written (No such file or directory); set XDG_STATE_HOME to a folder that can be."
    )
    assert runs(tmp_path) == []
    moved = bare | {"HOME": "/proc/nowhere", "XDG_STATE_HOME": environ["XDG_STATE_HOME"]}
    done = run([GYM, *submission], moved)
    assert done.returncode == 0, done.stderr
    assert "XDG_CACHE_HOME moves it" in done.stderr


@pytest.mark.parametrize(
    "changes",
    [
        {"HOME": None},
        {"HOME": "relative"},
        {"XDG_CACHE_HOME": "rel", "XDG_STATE_HOME": "rel"},
        {"TERM": None},
        {"TERM": ""},
        {"COLUMNS": "0"},
        {"TMPDIR": "/nowhere"},
    ],
    ids=str,
)
def test_odd_variables_keep_nobody_from_work(environ, tmp_path, changes):
    surroundings = {name: value for name, value in {**environ, **changes}.items() if value is not None}
    for words in ([GYM, "list", "benchmarks"], [GYM, "--help"], [NEMO, "--help"], [NEMO, "config", "view"]):
        done = run(words, surroundings, cwd=tmp_path, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        assert "unexpected" not in done.stderr


def test_a_run_needs_no_home_and_no_folder_for_temporary_files(environ, tmp_path):
    bare = {name: value for name, value in environ.items() if not name.startswith("XDG_")}
    (tmp_path / "rows.jsonl").write_text('{"question": "What is 1 + 1?", "expected_answer": "2"}\n')
    with MockServer() as server:
        words = [GYM, "eval", "run", "--benchmark", "arithmetic", "--input", str(tmp_path / "rows.jsonl")]
        words += [
            "--model",
            "mock",
            "--model-url",
            server.base_url,
            "--output",
            str(tmp_path / "o" / "r.jsonl"),
        ]
        proxy = {"http_proxy": "socks5://127.0.0.1:9", "ALL_PROXY": "127.0.0.1:9"}
        done = run(words, bare | proxy | {"HOME": "/proc/nowhere", "TMPDIR": "/nowhere"})
    assert done.returncode == 0, done.stderr


def test_a_folder_that_is_gone_is_said(environ, tmp_path):
    (tmp_path / "gone").mkdir()
    shell = 'cd gone && rmdir ../gone && "$@"'
    done = run(["bash", "-c", shell, "bash", GYM, "eval", "submit", "-c", "x.yaml"], environ, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "gym: the current folder is not there any more; change to another one."
    )


@pytest.mark.parametrize("variable", ["ALL_PROXY", "all_proxy", "http_proxy", "HTTP_PROXY"])
@pytest.mark.parametrize("kind", ["socks", "socks5", "socks5h"])
def test_a_proxy_that_cannot_be_used_is_one_sentence_with_its_variable(environ, variable, kind):
    proxy = environ | {variable: f"{kind}://me:canary@127.0.0.1:9"}
    gym = [GYM, "eval", "run", "--benchmark", "arithmetic", "--model", "m", "--output", "o.jsonl"]
    for words in (
        [*gym, "--model-url", "http://models.example:8000/v1"],
        [NEMO, "jobs", "list", "--base-url", "http://jobs.example:8080"],
    ):
        done = run(words, proxy)
        assert done.returncode == 1
        said = done.stderr.splitlines()[-1]
        assert said.partition(": ")[2].startswith(
            f"{variable}: a proxy of the kind {kind}:// cannot be used here"
        )
        assert "canary" not in done.stderr


def test_a_proxy_without_a_scheme_is_http_and_one_that_is_away_is_named(environ):
    with MockServer() as server:
        proxy = environ | {"http_proxy": f"127.0.0.1:{server.port}"}
        done = run([NEMO, "jobs", "list", "--base-url", "http://jobs.example:8080"], proxy)
        assert done.returncode == 3
        assert "404" in done.stderr, "the proxy answered"
    done = run(
        [NEMO, "jobs", "list", "--base-url", "http://jobs.example:8080"],
        environ | {"ALL_PROXY": "127.0.0.1:9"},
    )
    assert done.returncode == 3
    assert "the proxy of ALL_PROXY for http://jobs.example:8080" in done.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9"])
def test_this_machine_is_reached_without_a_proxy(environ, url):
    proxy = environ | {"ALL_PROXY": "socks://127.0.0.1:9", "HTTP_PROXY": "no address at all"}
    done = run([NEMO, "jobs", "list", "--base-url", url], proxy)
    assert done.returncode == 3
    assert "no service answers at" in done.stderr


def test_a_word_that_the_locale_cannot_read_is_said_with_the_way_out(environ):
    words = [NEMO, "jobs", "get", "naïve", "--base-url", "http://127.0.0.1:9"]
    done = run(words, environ | LOCALES[0])
    assert done.returncode == 1
    assert "set LC_ALL=C.UTF-8" in done.stderr


@pytest.mark.parametrize("umask", ["000", "077"])
def test_a_submission_has_the_same_modes_under_every_umask(environ, submission, tmp_path, umask):
    shell = f'umask {umask} && "$@"'
    assert run(["bash", "-c", shell, "bash", GYM, *submission], environ).returncode == 0
    (run_dir,) = runs(tmp_path)
    modes = {
        name: (run_dir / name).stat().st_mode & 0o777 for name in ("gym-job.json", "sums", "sums/job.sh")
    }
    assert modes == {"gym-job.json": 0o644, "sums": 0o755, "sums/job.sh": 0o600}


def test_packages_of_the_login_shell_are_for_the_users_programs_and_not_for_ours(environ, tmp_path):
    poison = tmp_path / "poison"
    (poison / "aiohttp").mkdir(parents=True)
    (poison / "aiohttp" / "__init__.py").write_text("raise SystemExit('the wrong package was imported')\n")
    (tmp_path / "rows.jsonl").write_text('{"question": "What is 1 + 1?", "expected_answer": "2"}\n')
    with MockServer() as server:
        run_section = {
            "config_paths": ["benchmarks/arithmetic/config.yaml"],
            "input_jsonl_fpath": str(tmp_path / "rows.jsonl"),
        }
        run_section |= {"policy_base_url": server.base_url, "policy_model_name": "mock"}
        config = {
            "compute": {"here": {"type": "local", "walltime": "00:01:00"}},
            "driver": {
                "benchmarks": {"ours": {"run": run_section}, "theirs": {"command": "env >seen"}},
            },
            "job": {"output_path": str(tmp_path / "runs")},
        }
        (tmp_path / "submit.yaml").write_text(json.dumps(config))
        foreign = {"PYTHONPATH": str(poison), "PYTHONSTARTUP": "/nowhere", "LD_LIBRARY_PATH": "/nowhere"}
        words = [GYM, "eval", "submit", "-c", str(tmp_path / "submit.yaml"), "--follow"]
        done = run(words, environ | foreign)
    assert done.returncode == 0, done.stderr
    (run_dir,) = runs(tmp_path)
    seen = (run_dir / "theirs" / "seen").read_text().splitlines()
    assert {f"{name}={value}" for name, value in foreign.items()} <= set(seen)
    manifest = json.loads((run_dir / "ours" / "artifacts" / "rollouts_manifest.json").read_bytes())
    assert manifest["links"][0]["gym_path"] == str(Path(nemo_gym.__file__).parent)

"""Named sets of packages for the code in a sandbox."""

from __future__ import annotations

import asyncio
import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.real_programs import needs_bwrap

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.orchestration.submit import sandbox_check
from nemo_gym.rollouts.data.prepare import ensure_environments
from nemo_gym.rollouts.run_config.identity import identity_of
from nemo_gym.rollouts.run_config.schema import RunConfig, load_run_config
from nemo_gym.sandbox import environments
from nemo_gym.sandbox.registry import load_sandbox
from nemo_runs.findings import FindingLevel

PINS = f"numpy==2.4.6 \\\n    --hash=sha256:{'0' * 64}  # via us\n# a remark\n"


def test_those_that_come_along_are_whole_sets_of_pins() -> None:
    assert environments.shipped() == ["science"]
    for name in environments.shipped():
        found = environments.named(name)
        assert (found.name, found.recipe.name) == (name, f"sandbox-{name}")


def test_a_file_is_read_where_it_lies_and_its_text_is_used_where_it_went_along(tmp_path: Path) -> None:
    file = tmp_path / "packages.v2.txt"
    file.write_text(PINS)
    found = environments.named(str(file))
    assert found == environments.named("packages.v2.txt", PINS)
    assert found.recipe.name == "sandbox-packages_v2"
    assert found.recipe.digest != environments.named("p.txt", f"{PINS}# changed").recipe.digest


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("numpy", "'numpy' has no version with a hash"),
        ("numpy==2.4.6", "'numpy==2.4.6' has no version with a hash"),
        (f"numpy>=2 --hash=sha256:{'0' * 64}", "'numpy>=2 --hash=sha256:0000"),
        ("--no-index --pre", "'--no-index --pre' has no version"),
        ("-r other.txt", "'-r other.txt' has no version"),
        ("", "no package is named in it"),
        ("# numpy==2.4.6", "no package is named in it"),
    ],
)
def test_what_is_not_pinned_is_refused_by_its_line(line: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        environments.named("own.txt", f"{line}\n")
    assert str(refused.value).startswith(f"own.txt: {said}")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"environment": "sience"}, "there is no environment 'sience' (did you mean 'science'?)"),
        ({"environment": "/nowhere/own.txt"}, "there is no file /nowhere/own.txt"),
        ({"environment": "science", "python": "/usr/bin/python3"}, "a python or an environment, not both"),
        ({"environment": "science", "type": "apptainer", "image": "/i.sif"}, "leave it out with apptainer"),
    ],
)
def test_options_that_cannot_be_are_refused_by_their_key(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=r"^benchmark\.verifier\.sandbox\.environment: ") as refused:
        load_sandbox(spec, where="benchmark.verifier.sandbox")
    assert said in str(refused.value)


def loaded(folder: Path, sandbox: dict[str, Any]) -> RunConfig:
    """A run whose config lies in ``folder``, with this sandbox of its verifier and its agent."""
    verifier = {"type": "several", "score": "c", "verifiers": {"c": {"type": "code", "sandbox": sandbox}}}
    agent = {"type": "tools", "tools": [{"type": "python"}], "sandbox": dict(sandbox)}
    benchmark = {"name": "b", "datasets": {"benchmark": {"jsonl_fpath": "rows.jsonl"}}}
    base = {"benchmark": {**benchmark, "verifier": verifier, "agent": agent}}
    return load_run_config(
        [], None, [], search_dirs=[], base=base, cwd=Path("/"), base_folder=folder, user_env=False
    ).config


def test_the_text_of_a_file_goes_along_and_its_digest_is_what_grades_depend_on(tmp_path: Path) -> None:
    identities = []
    for name, pins in (("one.txt", PINS), ("two.txt", PINS), ("two.txt", f"{PINS}# changed\n")):
        (tmp_path / name).write_text(pins)
        config = loaded(tmp_path, {"environment": name})
        (tmp_path / name).unlink()
        again = RunConfig.model_validate(config.to_plain())
        for spec in (again.benchmark.agent, again.benchmark.verifier["verifiers"]["c"]):
            assert spec["sandbox"] == {"environment": name, "environment_pins": pins}
        identities.append(identity_of(again, dataset_sha256="0", model=None))
    first, second, third = identities
    assert (first.generation, first.scoring) == (second.generation, second.scoring)
    assert first.scoring_digest != third.scoring_digest
    assert first.generation_digest != third.generation_digest
    kept = first.scoring["benchmark"]["verifier"]["verifiers"]["c"]["sandbox"]
    assert kept == {"environment_pins": f"sha256:{hashlib.sha256(PINS.encode()).hexdigest()}"}


def test_a_file_that_is_not_there_is_refused_when_the_config_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"sandbox\.environment: there is no file {tmp_path}/own\.txt\.$"):
        loaded(tmp_path, {"environment": "./own.txt"})


@pytest.fixture
def own_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of pins with one small package, whose wheel lies beside it; the cache is empty."""
    wheel = tmp_path / "answers-1.0-py3-none-any.whl"
    about = "answers-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("answers.py", "VALUE = 42\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: answers\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pins = tmp_path / "own.txt"
    pins.write_text(f"answers @ {wheel.as_uri()} \\\n    --hash=sha256:{digest}\n")
    return pins


@pytest.mark.slow
@needs_bwrap
def test_code_finds_the_packages_once_they_are_installed(
    own_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"type": "bubblewrap", "environment": str(own_package), "seconds": 60, "memory_mb": 512}
    verifier = {"type": "code", "sandbox": spec}
    benchmark = {"name": "b", "datasets": {}, "verifier": verifier}
    runs = {"b": BenchmarkRun(run={"benchmark": benchmark}, prepare=None)}

    def check() -> tuple[FindingLevel, str]:
        (finding,) = sandbox_check.look(runs, elsewhere=None, on_nodes=False)
        return finding.verdict, finding.text

    level, text = check()
    assert (level, "the environment 'own.txt' is not installed here" in text) == (FindingLevel.WARNING, True)
    ensure_environments(RunConfig.model_validate({"benchmark": benchmark}))
    level, text = check()
    assert (level, "with the environment 'own.txt' works here" in text) == (FindingLevel.OK, True)

    async def printed() -> tuple[bytes, str]:
        sandbox = load_sandbox(spec)
        async with sandbox.open() as session:
            code = "import answers; print(answers.VALUE); open(answers.__file__, 'w')"
            done = await session.run(["python3", "-c", code])
        return done.stdout + done.stderr[-200:], (await sandbox.probe()).python_digest

    output, digest = asyncio.run(printed())
    assert output.startswith(b"42\n")
    assert b"Read-only file system" in output
    assert len(digest) == 64
    assert "installing" not in capsys.readouterr().err, "it was there already"

import subprocess
import sys

import pytest
from tests.nemo_trainer import trainings

from nemo_trainer import pack
from nemo_trainer.__main__ import main

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "baton-trainer.pyz"
    pack.build(path)
    return path


def run(packed, *arguments, cwd):
    return subprocess.run(
        [sys.executable, "-I", "-S", str(packed), *arguments],
        cwd=cwd, env={}, capture_output=True, text=True, timeout=trainings.TIMEOUT, check=False,
    )  # fmt: skip


def test_one_file_trains_and_checks_without_anything_installed(packed, tmp_path):
    done = run(packed, "example", "--dir", "t", "--steps", "12", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    done = run(packed, "checkpoints", "t", cwd=tmp_path)
    assert [line.split("\t")[::3] for line in done.stdout.splitlines()] == [
        ["10", "verified"],
        ["12", "verified"],
    ]
    (tmp_path / "t/checkpoints/12/state.json").write_text("{}")
    done = run(packed, "verify", "t/checkpoints/12", cwd=tmp_path)
    assert (done.returncode, "state.json: has 2 bytes" in done.stdout) == (4, True)
    done = run(packed, "metrics", "t", cwd=tmp_path)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [str(step) for step in range(1, 13)]
    assert run(packed, cwd=tmp_path).returncode == 2


def test_a_script_imports_the_session_from_the_file(packed, tmp_path):
    program = "from nemo_trainer.session import Session; import nemo_trainer; print(nemo_trainer.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path, env={"PYTHONPATH": str(packed)}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(str(packed))


def test_equal_sources_make_equal_bytes(packed, tmp_path):
    pack.build(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == packed.read_bytes()


def test_the_packer_wants_one_file(capsys):
    assert pack.main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_commands_say_what_is_damaged(tmp_path, capsys):
    (tmp_path / "checkpoints/3").mkdir(parents=True)
    assert main(["checkpoints", str(tmp_path)]) == 0
    assert "has no MANIFEST.json" in capsys.readouterr().out

"""The prose and the code say the same."""

import re
from pathlib import Path

from nemo_trainer.contract import names

README = (Path(names.__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_every_exit_code_is_in_the_table():
    codes = {value for name, value in vars(names).items() if name.startswith("EXIT_")}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)} == codes


def test_every_variable_that_is_read_is_named():
    variables = {
        value
        for name, value in vars(names).items()
        if isinstance(value, str) and value.startswith(("NEMO_", "NHX_", "RANK"))
    }
    assert {variable for variable in variables if f"`{variable}`" not in README} <= {
        "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"
    }


def test_every_file_is_named():
    paths = names.TrainerPaths(Path("x"))
    public = [paths.metrics, paths.progress, paths.outputs, paths.writer]
    assert all(f"`{path.name}`" in README for path in public)
    assert "`checkpoints/<step>/MANIFEST.json`" in README


def test_the_loop_is_python_and_uses_what_there_is():
    from nemo_trainer.session import Session

    code = README.split("```python\n")[1].split("```")[0]
    compile(code, "README.md", "exec")
    used = set(re.findall(r"session\.(\w+)\(", code))
    assert used >= {"restore", "wanted", "publish", "paused", "finish"}
    assert all(hasattr(Session, name) for name in used)

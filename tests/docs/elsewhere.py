"""Blocks that are not run by following their page here, each with a test that runs it, or a reason."""

from __future__ import annotations

PAUSING = "docs/tutorial/pause-resume-rerun.md"
FINE_TUNING = "docs/tutorial/fine-tune.md"
DEMOS = "docs/tutorial/demos.md"

ELSEWHERE = {
    PAUSING: "tests/e2e/test_tutorial_service.py::test_the_tutorial_says_what_its_commands_print",
    FINE_TUNING: "tests/e2e/test_tutorial_service.py::test_the_tutorial_of_fine_tuning_does_too",
}
"""Page -> the test that follows it from its first block to its last."""

SHOWN_ELSEWHERE = {
    (DEMOS, "$ nemo jobs pause first-training"): (
        "tests/e2e/test_tutorial_service.py::test_the_page_of_demos_shows_outputs_of_the_tutorial"
    ),
    ("docs/reference/verifiers.md", "sandbox:"): (
        "tests/nemo_gym/sandbox/test_environments.py::test_code_finds_the_packages_once_they_are_installed"
    ),
    ("README.md", ".venv/bin/python -m build --wheel --no-isolation"): (
        "tests/e2e/test_wheel.py::test_the_wheel_brings_programs_benchmarks_and_the_files_that_jobs_read"
    ),
}
"""(Page, first line of a block) -> the test that runs it."""

_SETS_UP = "it sets the project up, which has been done, or there would be no test; it installs packages"
NOT_HERE = {
    (
        "README.md",
        "make demo   # a real evaluation of a real small model, on CPU; under three minutes after downloads",
    ): ("tests/e2e/test_demo.py runs what `make demo` runs, and `make test` would run this test"),
    ("README.md", "make setup   # pinned packages and both programs into .venv"): _SETS_UP,
    ("CONTRIBUTING.md", "make setup    # pinned packages and the project into .venv"): (
        "`make test` would run this test; the demo and the parts of the measurements have tests of their own"
    ),
    (DEMOS, "make demo         # a real evaluation of a real small model, on CPU"): (
        "each runs for minutes; `make demo`, `make demo-train` and `make tour-train` are what "
        "tests/e2e/test_demo.py, test_demo_train.py and tests/slurm/test_tour_train.py run, and `make tour` "
        "needs a cluster of its own"
    ),
    ("docs/tutorial/first-evaluation.md", "make setup"): _SETS_UP,
    ("docs/how-to/see-runs-in-a-browser.md", "pip install 'nemo-baton[pages]'"): (
        "the packages are pinned and installed, and the index of packages has none of ours"
    ),
    ("docs/how-to/see-runs-in-a-browser.md", "ssh -N -L 8123:127.0.0.1:8123 login.example"): (
        "it needs a machine elsewhere, with a server of its own"
    ),
    ("docs/how-to/serve-a-model.md", "pip install 'nemo-baton[serve]'"): (
        "it downloads packages, and this one is published nowhere yet"
    ),
}
"""(Page, first line of a block) -> why it is run nowhere."""

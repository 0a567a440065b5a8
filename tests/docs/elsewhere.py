"""Blocks that are not run by following their page here, each with a test that runs it, or a reason."""

from __future__ import annotations

PAUSING = "docs/tutorial/pause-resume-rerun.md"
FINE_TUNING = "docs/tutorial/fine-tune.md"

ELSEWHERE = {
    PAUSING: "tests/e2e/test_tutorial_service.py::test_the_tutorial_says_what_its_commands_print",
    FINE_TUNING: "tests/e2e/test_tutorial_service.py::test_the_tutorial_of_fine_tuning_does_too",
}
"""Page -> the test that follows it from its first block to its last."""

SHOWN_ELSEWHERE = {
    ("README.md", "$ nemo jobs pause first-training"): (
        "tests/e2e/test_tutorial_service.py::test_the_readme_shows_outputs_of_the_tutorial"
    ),
}
"""(Page, first line of a block) -> the test that runs it."""

NOT_HERE = {
    (
        "README.md",
        "make demo         # a real evaluation of a real small model, on CPU, with nothing to start by hand",
    ): (
        "they set the project up and run for minutes to half an hour; `make demo` and `make demo-train` are "
        "what tests/e2e/test_demo.py and test_demo_train.py run, `make tour` needs a cluster of its own, and "
        "`make test` would run this test"
    ),
    ("docs/tutorial/first-evaluation.md", "make setup"): (
        "it has been run, or there would be no test; it installs packages"
    ),
    ("docs/how-to/serve-a-model.md", "pip install 'nemo-baton[serve]'"): (
        "it downloads packages, and this one is published nowhere yet"
    ),
}
"""(Page, first line of a block) -> why it is run nowhere."""

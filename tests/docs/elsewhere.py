"""Blocks that are not run by following their page here, each with a test that runs it, or a reason."""

from __future__ import annotations

PAUSING = "docs/tutorial/pause-resume-rerun.md"
FINE_TUNING = "docs/tutorial/fine-tune.md"
DEMOS = "docs/tutorial/demos.md"

TRAINED = "docs/how-to/use-a-trained-model.md"
MODEL_COMMANDS = "tests/nemo_models/test_commands.py"

ELSEWHERE = {
    "docs/reference/recipes.md": (
        "tests/nemo_helix_plugin/customization/test_recipes.py::"
        "test_what_is_shown_can_be_saved_and_given_back"
    ),
    PAUSING: "tests/e2e/test_tutorial_service.py::test_the_tutorial_says_what_its_commands_print",
    FINE_TUNING: "tests/e2e/test_tutorial_service.py::test_the_tutorial_of_fine_tuning_does_too",
}
"""Page -> the test that follows it from its first block to its last."""

SHOWN_ELSEWHERE = {
    (DEMOS, "$ nemo jobs pause first-training"): (
        "tests/e2e/test_tutorial_service.py::test_the_page_of_demos_shows_outputs_of_the_tutorial"
    ),
    (TRAINED, "nemo models chat sums --with-base"): (
        f"{MODEL_COMMANDS}::test_on_a_terminal_ctrl_c_ends_the_answer_and_the_conversation_goes_on"
    ),
    (TRAINED, "nemo models serve sums --port 8123"): (
        f"{MODEL_COMMANDS}::test_a_served_model_answers_as_transformers_does_to_who_has_the_key"
    ),
    (TRAINED, "nemo models export sums --to merged -o sums-whole"): (
        f"{MODEL_COMMANDS}::test_merged_weights_have_the_logits_of_base_and_adapter"
    ),
    (TRAINED, "nemo models push sums my-org/sums --results results.json"): (
        f"{MODEL_COMMANDS}::test_a_push_is_private_goes_on_after_an_interruption_and_holds_no_secret"
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

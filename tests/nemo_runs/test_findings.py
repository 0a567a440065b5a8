"""Findings are documents and lines."""

from nemo_runs.findings import as_line, ok, passed, problem, unknown, warning


def test_only_a_problem_fails_a_check() -> None:
    assert passed([])
    assert passed([ok("a", "b"), unknown("a", "b"), warning("a", "b")])
    assert not passed([ok("a", "b"), problem("a", "b")])


def test_a_finding_is_a_document_of_texts_and_a_line() -> None:
    found = warning("walltime", "it is not set")
    assert found.to_json() == {"verdict": "warning", "about": "walltime", "text": "it is not set"}
    assert as_line(**found.to_json()) == "warning  walltime: it is not set"
    assert as_line("ok", "walltime", "x") == "ok       walltime: x"
    assert as_line("ok", "sbatch", "a\n  banner\nb") == "ok       sbatch: a banner b"

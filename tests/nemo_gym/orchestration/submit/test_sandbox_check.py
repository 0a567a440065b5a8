from __future__ import annotations

from typing import Any

import pytest
from tests.real_programs import needs_bwrap

from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.orchestration.submit import sandbox_check
from nemo_runs.findings import Finding, FindingLevel

CODE: dict[str, Any] = {"type": "code", "sandbox": {"type": "bubblewrap"}}


def found(verifier: dict[str, Any], *, elsewhere: str | None = None, on_nodes: bool = False) -> list[Finding]:
    run = {"benchmark": {"agent": {"type": "single_turn"}, "verifier": verifier}}
    runs = {"humaneval": BenchmarkRun(run=run, prepare=None), "own": BenchmarkRun(run=None, prepare=None)}
    return list(sandbox_check.look(runs, elsewhere=elsewhere, on_nodes=on_nodes))


@pytest.mark.slow
@needs_bwrap
def test_a_sandbox_that_works_is_named_with_what_holds_its_limits() -> None:
    (finding,) = found({"type": "several", "score": "a", "verifiers": {"a": CODE, "b": {"type": "match"}}})
    assert (finding.verdict, finding.about) == (FindingLevel.OK, "sandbox")
    assert finding.text.startswith("humaneval: bubblewrap (bwrap ")
    assert " holds its limits" in finding.text


@pytest.mark.parametrize(("on_nodes", "level"), [(False, FindingLevel.PROBLEM), (True, FindingLevel.WARNING)])
def test_one_that_does_not_work_is_a_problem_where_the_jobs_run_here(
    monkeypatch: pytest.MonkeyPatch, on_nodes: bool, level: FindingLevel
) -> None:
    monkeypatch.setattr("nemo_gym.sandbox.bubblewrap.program", lambda name: None)
    (finding,) = found(CODE, on_nodes=on_nodes)
    assert finding.verdict is level
    assert "the program bwrap is not there; it comes with the package bubblewrap" in finding.text


def test_bare_code_is_warned_about_and_another_machine_is_unknown() -> None:
    (elsewhere,) = found(CODE, elsewhere="alps")
    assert elsewhere.verdict is FindingLevel.UNKNOWN
    (bare,) = found({"type": "code", "sandbox": {"type": "none"}})
    assert (bare.verdict, "as you" in bare.text) == (FindingLevel.WARNING, True)


def test_an_agent_whose_tools_run_code_has_a_sandbox_and_no_other_needs_one() -> None:
    def named(*types: str, **more: Any) -> list[Any]:
        agent = {"type": "tools", "tools": [{"type": kind} for kind in types], **more}
        return list(
            sandbox_check.sandboxes_of({"benchmark": {"agent": agent, "verifier": {"type": "match"}}})
        )

    assert named("python") == named("nothing", "bash") == [{}]
    assert named("file", "mcp", "nothing") == []
    assert named("file", sandbox={"type": "none"}) == [{"type": "none"}]


def test_benchmarks_that_run_no_code_have_no_line() -> None:
    assert found({"type": "match"}) == []

"""`nemo jobs evaluations`: scores as a table, and the answers to each prompt below each other."""

from __future__ import annotations

import pytest

JOB = "unsloth-0000000000aa"


@pytest.fixture
def evaluated(service):
    service.jobs[JOB]["status_details"] |= {
        "evaluation": {
            "benchmark": "arithmetic",
            "shown": [
                {"step": 2, "score": 0.25, "low": 0.1, "high": 0.4, "rows": 20, "seconds": 3.5},
                {"step": 4, "error": "its process was ended by SIGKILL"},
            ],
            "prompts": [
                {
                    "prompt": "What is 2 + 3?",
                    "answers": [{"step": 2, "text": "six\n\x1b[31m"}, {"step": 4, "text": ""}],
                }
            ],
        }
    }
    return service


def test_a_person_sees_scores_and_answers_by_step(evaluated, nemo):
    ran = nemo("jobs", "evaluations", JOB, "-f", "table")
    assert (ran.status, ran.err) == (0, "")
    assert "0.25" in ran.out
    assert "SIGKILL" in ran.out
    assert "prompt: What is 2 + 3?" in ran.out
    assert "  step 2: six" in ran.out
    assert "\x1b" not in ran.out
    assert "  step 4: (nothing)" in ran.out


def test_a_program_gets_one_document_or_rows(evaluated, nemo):
    document = nemo("jobs", "evaluations", JOB, "--json").document
    assert [one["score"] for one in document["evaluations"]] == [0.25, None]
    assert document["prompts"][0]["answers"][0]["step"] == 2
    ran = nemo("jobs", "evaluations", JOB, "-f", "csv")
    assert ran.out.splitlines()[1].startswith("2,0.25,0.1,0.4,20,3.5")


def test_a_job_without_evaluations_says_so(service, nemo):
    ran = nemo("jobs", "evaluations", JOB, "-f", "table")
    assert ran.status == 0
    assert "no checkpoint of it was evaluated" in ran.err

import io
import json
import os
import resource
import socket
import sys

import pytest
from tests.mock_server import MockServer

from nemo_gym.cli.main import _status
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.scores.certificate import certify

pytestmark = pytest.mark.services


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    for name in ("NEMO_GYM_DRAIN_FILE", "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", "NEMO_GYM_EXTRA_ROOTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"question": f"What is {n} + 1?", "expected_answer": str(n + 1)} for n in range(8)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def run(rows, tmp_path, capsys):
    """Run the command in this process against a server; status, stdout, stderr."""

    def call(server, *tokens, flags=None):
        given = {
            "--benchmark": "arithmetic",
            "--input": str(rows),
            "--output": str(tmp_path / "out" / "rollouts.jsonl"),
            "--model": "mock",
            "--model-url": server.base_url if server else None,
        } | (flags or {})
        pairs = [part for flag, value in given.items() if value is not None for part in (flag, value)]
        status = _status(["eval", "run", *pairs, *tokens])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def results(tmp_path):
    lines = (tmp_path / "out" / "rollouts.jsonl").read_bytes().splitlines()
    return [json.loads(line) for line in lines]


def identities(tmp_path):
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in results(tmp_path)]


def test_a_benchmark_is_collected_scored_and_summed_up(run, tmp_path):
    with MockServer() as server:
        status, out, err = run(server)
    assert status == 0
    assert sorted(identities(tmp_path)) == [(n, 0) for n in range(8)]
    assert {row["reward"] for row in results(tmp_path)} == {1.0}
    assert "100.0%" in out
    assert "complete: all 8 rollouts have a result." in err
    progress = json.loads((tmp_path / "out" / "progress.json").read_bytes())
    assert (progress["state"], progress["done"], progress["mean_reward"]) == ("complete", 8, 1.0)


def test_json_is_one_document_that_holds_the_summary_and_the_end(run, tmp_path):
    with MockServer(answer="wrong") as server:
        status, out, _ = run(server, "--json")
    document = json.loads(out)
    assert status == 0
    assert document["score"]["mean"] == 0.0
    assert document["measured"] == document["expected"] == 8
    assert document["end"]["state"] == "complete"
    assert document["output"] == str(tmp_path / "out" / "rollouts.jsonl")


def test_limit_and_repeats_and_flags_and_overrides_reach_the_requests(run, tmp_path):
    flags = {"--limit": "3", "--num-repeats": "2", "--temperature": "0.7", "--max-output-tokens": "5"}
    with MockServer() as server:
        status, _, _ = run(server, "responses_create_params.seed=11", flags=flags)
        bodies = server.bodies
    assert status == 0
    assert sorted(identities(tmp_path)) == [(n, r) for n in range(3) for r in range(2)]
    assert {(b["temperature"], b["max_tokens"], b["seed"], b["model"]) for b in bodies} == {
        (0.7, 5, 11, "mock")
    }


def test_a_run_grows_from_a_few_tasks_to_all_and_to_more_repeats(run, tmp_path):
    output = tmp_path / "out" / "rollouts.jsonl"
    with MockServer() as server:
        assert run(server, flags={"--limit": "3"})[0] == 0
        first = output.read_bytes()
        status, _, err = run(server, "--resume", flags={"--num-repeats": "2"})
        assert status == 0
        assert "3 tasks with 1 repeat were planned, now 8 tasks with 2 repeats are; what is" in err
        assert sum(server.prompts.values()) == 16
        status, _, err = run(server, "--resume", flags={"--limit": "3"})
        assert status == 1
        assert "num_tasks" in err or "limit" in err
    assert output.read_bytes().startswith(first)
    assert sorted(identities(tmp_path)) == [(n, r) for n in range(8) for r in range(2)]
    assert certify(RolloutPaths(output)).problems == []


def test_a_run_keeps_to_the_requests_of_a_minute_and_stops_where_it_waits(run, tmp_path, monkeypatch):
    budget = {"--limit": "8"}
    with MockServer() as server:
        status, _, _ = run(
            *(server, "max_requests_per_minute=3", "dispatch_budget_s=1", "drain_margin_s=0"), flags=budget
        )
        assert sum(server.prompts.values()) == 3
    assert status == 75
    assert len(results(tmp_path)) == 3
    failures = (tmp_path / "out" / "rollouts_failures.jsonl").read_text().splitlines()
    assert all("was not sent" in line and '"_ng_failure_counted":false' in line for line in failures)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "<think>Let me add"},
        {"content": None, "reasoning_content": "Let me add"},
        {"content": ""},
    ],
    ids=["in-the-text", "beside-it", "hidden"],
)
def test_answers_that_are_cut_within_a_thought_are_counted_and_advice_is_given_once(run, message):
    usage = {"prompt_tokens": 9, "completion_tokens": 8, "completion_tokens_details": {"reasoning_tokens": 8}}
    body = {"choices": [{"finish_reason": "length", "message": message}], "usage": usage}
    with MockServer(faults=[f"json:{json.dumps(body)}", f"json:{json.dumps(body)}", "length"]) as server:
        _, out, err = run(server, "--json")
    document = json.loads(out)
    assert (document["truncated"], document["cut_in_thought"]) == (3, 2)
    assert document["notes"][0].startswith(
        "2 answers were cut within a thought, before anything was answered"
    )
    assert err.count("an answer was cut within a thought") == 1
    assert "--max-output-tokens N" in err


def test_data_that_grew_is_asked_only_for_its_new_rows(run, rows, tmp_path):
    with MockServer() as server:
        run(server)
        with rows.open("a") as file:
            file.write(json.dumps({"question": "What is 8 + 1?", "expected_answer": "9"}) + "\n")
        status, out, _ = run(server, "--resume", "--json")
        assert (status, json.loads(out)["expected"]) == (0, 9)
        assert sum(server.prompts.values()) == 9
        text = rows.read_text().replace("What is 0", "Say what is 0")
        rows.write_text(text + text.splitlines()[-1] + "\n")
        status, _, err = run(server, "--resume")
    assert status == 1
    assert "dataset_sha256" in err


@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
def test_every_api_gives_the_same_score(run, api):
    with MockServer() as server:
        _, out, _ = run(server, "--json", f"policy_api={api}")
    assert json.loads(out)["score"]["mean"] == 1.0


def test_a_second_run_on_the_same_output_is_refused_without_resume(run, tmp_path):
    with MockServer() as server:
        run(server)
        before = (tmp_path / "out" / "rollouts.jsonl").read_bytes()
        status, _, err = run(server)
        assert status == 1
        assert "--resume" in err
        assert server.requests == 8
    assert (tmp_path / "out" / "rollouts.jsonl").read_bytes() == before


def test_resume_runs_what_is_missing_and_nothing_else(run, tmp_path):
    path = tmp_path / "out" / "rollouts.jsonl"
    with MockServer() as server:
        run(server)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:5]) + lines[5][:40])
        server.requests = 0
        status, out, err = run(server, "--resume")
        assert (status, server.requests) == (0, 3)
    assert sorted(identities(tmp_path)) == [(n, 0) for n in range(8)]
    assert "resuming: 5 of 8" in err
    assert "5 resumed, 3 new" in out


def test_a_complete_run_is_resumed_without_a_server(run, tmp_path):
    with MockServer() as server:
        run(server)
    status, _, err = run(server, "--resume")
    assert status == 0
    assert "complete" in err


def test_a_change_that_affects_answers_is_refused_with_the_difference(run):
    with MockServer() as server:
        run(server)
        status, _, err = run(server, "--resume", flags={"--temperature": "0.5"})
    assert status == 1
    assert "responses_create_params.temperature: 0.0 → 0.5" in err


def test_another_port_is_no_change(run, tmp_path):
    path = tmp_path / "out" / "rollouts.jsonl"
    with MockServer() as server:
        run(server)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with MockServer() as other:
        assert run(other, "--resume", flags={"--concurrency": "2"})[0] == 0
        assert other.requests == 7


def test_data_that_is_gone_does_not_keep_a_run_from_going_on(run, tmp_path, rows):
    path = tmp_path / "out" / "rollouts.jsonl"
    with MockServer() as server:
        run(server)
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
        rows.unlink()
        status, _, err = run(server, "--resume")
    assert status == 0
    assert "going on with rollouts_materialized_inputs.jsonl" in err
    assert len(results(tmp_path)) == 8


def test_what_always_fails_ends_76_and_is_in_the_failures_file(run, tmp_path):
    with MockServer(faults_for={"What is 3 + 1": ["400*"]}) as server:
        status, out, err = run(server, "--json")
        assert server.prompts["What is 3 + 1? Answer with the number only."] == 3
    failures = (tmp_path / "out" / "rollouts_failures.jsonl").read_bytes().splitlines()
    row = json.loads(failures[0])
    assert status == 76
    assert len(failures) == 3
    assert (row["_ng_task_index"], row["_ng_failure_http_status"]) == (3, 400)
    assert row["_ng_failure_class"] == "agent_run_error"
    assert json.loads(out)["failed"] == 1
    assert "7 of 8" in err


def test_the_cap_on_attempts_counts_across_resumes(run):
    with MockServer(faults_for={"What is 3 + 1": ["503*"]}) as server:
        statuses = [run(server, "--resume", "max_request_attempts=1")[0] for _ in range(4)]
        assert server.prompts["What is 3 + 1? Answer with the number only."] == 3
    assert statuses[-1] == 76
    assert set(statuses[:-1]) <= {75, 1, 76}


def test_an_endpoint_that_fails_for_some_ends_75_and_for_all_1(run, tmp_path):
    with MockServer(faults_for={"What is 3 + 1": ["503*"], "What is 4 + 1": ["drop*"]}) as server:
        status, _, err = run(server, "max_request_attempts=1", flags={"--concurrency": "1"})
    assert status == 75
    assert "6 of 8" in err
    out = tmp_path / "other" / "rollouts.jsonl"
    with MockServer(faults=["500*"]) as server:
        status, _, err = run(server, "max_request_attempts=1", flags={"--output": str(out)})
    assert status == 1
    assert "not one new result" in err
    assert json.loads((tmp_path / "other" / "progress.json").read_bytes())["state"] == "failed"


def test_an_incomplete_end_is_accepted_when_told_so(run):
    with MockServer(faults_for={"What is 3 + 1": ["400*"]}) as server:
        status, out, _ = run(server, "require_complete=false", "--json")
    document = json.loads(out)
    assert status == 0
    assert (document["measured"], document["failed"], document["expected"]) == (7, 1, 8)


@pytest.mark.parametrize("fault", ["429:0", "500", "cut", "garbage", "drop"])
def test_passing_faults_leave_no_trace_in_the_results(run, tmp_path, fault):
    with MockServer(faults=[fault, fault]) as server:
        status, _, err = run(server, "max_request_attempts=3")
    assert status == 0
    assert len(results(tmp_path)) == 8
    assert err.count("retrying in") == 1
    assert "2 requests were sent again" in err
    assert (tmp_path / "out" / "rollouts_failures.jsonl").read_bytes() == b""


def test_the_drain_file_stops_a_run_before_its_first_request(run, tmp_path, monkeypatch):
    (tmp_path / "drain").write_text("walltime")
    monkeypatch.setenv("NEMO_GYM_DRAIN_FILE", str(tmp_path / "drain"))
    with MockServer() as server:
        status, out, err = run(server)
        assert server.requests == 0
    assert status == 75
    assert "drained (drain file: walltime) before the first request." in err
    assert out == ""


def test_a_key_from_a_variable_or_from_standard_input_is_used_and_never_shown(run, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "canary-a4711")
    monkeypatch.setattr("sys.stdin", io.StringIO("canary-b4711\n"))
    talk = ""
    for key, how, name in (("canary-a4711", "host:MY_KEY", "a"), ("canary-b4711", "-", "b")):
        with MockServer(api_key=key, faults=["echo-key"]) as server:
            flags = {"--model-api-key": how, "--output": str(tmp_path / name / "rollouts.jsonl")}
            status, out, err = run(server, flags=flags)
            assert status == 0, err
            talk += out + err
    monkeypatch.delenv("NEMO_GYM_POLICY_API_KEY")
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"_ng_failure_http_status" in written
    assert "canary" not in talk
    assert b"canary" not in written


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


WRONG = {
    "no model": ({"--model": None}, (), 1, "missing policy_model_name (--model)"),
    "no url": ({"--model-url": None}, (), 1, "missing policy_base_url (--model-url)"),
    "a url that is none": ({"--model-url": "localhost:8000"}, (), 1, "http://HOST:PORT/v1"),
    "nobody there": (
        {"--model-url": "unreachable"},
        ("model_endpoint_readiness_timeout_seconds=0.1",),
        1,
        "cannot be reached (connection refused)",
    ),
    "another model": (
        {"--model": "moc"},
        (),
        1,
        "does not serve 'moc' (did you mean 'mock'?); it",
    ),
    "a typed key": ({"--model-api-key": "sk-canary"}, (), 2, "host:VAR"),
    "an unset key": ({"--model-api-key": "host:UNSET_KEY"}, (), 1, "UNSET_KEY"),
    "no output": ({"--output": None}, (), 2, "--output FILE"),
    "a folder as output": ({"--output": "."}, (), 1, "is a folder"),
    "an output below a file": ({"--output": "rows.jsonl/x.jsonl"}, (), 1, "cannot be made"),
    "an unknown benchmark": ({"--benchmark": "arithmetics"}, (), 1, "arithmetic"),
    "an unknown key": ({}, ("num_sampels_in_parallel=3",), 1, "num_samples_in_parallel"),
    "no override": ({}, ("concurrency",), 2, "key=value"),
    "a wrong value": ({"--concurrency": "0"}, (), 1, "--concurrency (must be 1 or more)"),
    "no data": ({"--input": "gone.jsonl"}, (), 1, "gone.jsonl"),
    "data that does not fit": ({"--input": "bad.jsonl"}, (), 1, "bad.jsonl:2"),
    "more than can be planned": ({"--num-repeats": "99999999999"}, (), 1, "rollouts that one run may have"),
    "an unknown verifier": ({}, ("benchmark.verifier.type=mach",), 1, "match"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_sentence_before_the_first_request(run, case, tmp_path):
    flags, tokens, expected, sentence = WRONG[case]
    (tmp_path / "bad.jsonl").write_text(
        '{"question": "1 + 1", "expected_answer": "2"}\n{"question": "1 + 1"}\n'
    )
    if flags.get("--model-url") == "unreachable":
        flags = {"--model-url": f"http://127.0.0.1:{free_port()}/v1"}
    with MockServer() as server:
        status, out, err = run(server, *tokens, flags=flags)
        assert server.requests == 0
    assert status == expected
    assert sentence in err
    assert err.startswith("gym: ")
    assert err.count("\n") == 1
    assert out == ""
    assert "canary" not in err
    assert not (tmp_path / "out" / "rollouts.jsonl").exists()


@pytest.mark.parametrize("name", ["rollouts.jsonl", "rollouts_failures.jsonl", "rollouts_manifest.json"])
@pytest.mark.parametrize("tokens", [(), ("--resume",)])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(run, tmp_path, name, tokens):
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / name)
    with MockServer() as server:
        status, _, err = run(server, *tokens)
        assert server.requests == 0
    assert status == 1
    assert f"{name} is there and no file" in err


def test_a_folder_in_the_place_of_the_metrics_is_named_itself(run, tmp_path):
    (tmp_path / "out" / "rollouts_aggregate_metrics.json").mkdir(parents=True)
    with MockServer() as server:
        status, _, err = run(server)
    assert status == 1
    assert "Is a directory" in err
    assert "rollouts_aggregate_metrics.json" in err


def test_an_output_that_is_no_file_is_refused_and_nothing_is_made_beside_it(run, tmp_path):
    folder = tmp_path / "special"
    folder.mkdir()
    with MockServer() as server, socket.socket(socket.AF_UNIX) as special:
        special.bind(str(folder / "it"))
        status, _, err = run(server, flags={"--output": "special/it"})
        assert server.requests == 0
    assert status == 1
    assert "special/it is there and no file" in err
    assert os.listdir(folder) == ["it"]


def test_the_signals_are_given_back(run):
    import signal

    before = signal.getsignal(signal.SIGTERM)
    with MockServer() as server:
        run(server)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_collector_that_is_at_work_keeps_others_out(run, tmp_path):
    from nemo_gym.job_paths import RolloutPaths
    from nemo_gym.rollouts.output import lock

    paths = RolloutPaths(tmp_path / "out" / "rollouts.jsonl")
    paths.output.parent.mkdir()
    claim = lock.acquire(paths.lock, lock.Claimant.of({}, os.environ), output=paths.output)
    with MockServer() as server:
        status, _, err = run(server)
        assert server.requests == 0
    claim.release()
    assert status == 1
    assert str(os.getpid()) in err


def test_more_in_flight_than_files_may_be_open_is_refused_or_made_possible(run, monkeypatch):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    with MockServer() as server:
        assert run(server, flags={"--concurrency": "1000"})[0] == 0
        status, _, err = run(server, flags={"--concurrency": "5000"})
    assert asked == [(1064, 4096)]
    assert status == 1
    assert "5000 needs 5064 open files, 4096 are allowed" in err


# Answers that are not whole

CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
NOT_WHOLE = {
    "What is 0 + 1": "length",
    "What is 1 + 1": "end:content_filter",
    "What is 2 + 1": "json:"
    + json.dumps({"choices": [{"message": {"refusal": "No."}, "finish_reason": "stop"}]}),
    "What is 3 + 1": "json:"
    + json.dumps({"choices": [{"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}),
    "What is 4 + 1": "end:null",
    "What is 5 + 1": "end:tired",
    "What is 6 + 1": "end:error",
}
ENDS = ["max_output_tokens", "content_filter", "refusal", "tool_calls", "unstated", "other", None, None]


def test_answers_that_did_not_end_well_are_kept_scored_0_with_their_reason_and_not_asked_again(run, tmp_path):
    with MockServer(faults_for={text: [fault] for text, fault in NOT_WHOLE.items()}) as server:
        status, out, err = run(server, "benchmark.graded_ends=[]")
        assert server.requests == 9  # one more: an error is worth another try
        status_again, document, _ = run(server, "benchmark.graded_ends=[]", "--resume", "--json")
        assert server.requests == 9
    rows = sorted(results(tmp_path), key=lambda row: row["_ng_task_index"])
    assert (status, status_again) == (0, 0)
    assert [row.get("_ng_end") for row in rows] == ENDS
    assert [row.get("_ng_not_graded") for row in rows] == ENDS
    assert [row["reward"] for row in rows] == [0.0] * 6 + [1.0] * 2
    assert [row["extracted_answer"] for row in rows] == [None] * 6 + ["7", "8"]
    assert "answers    1 truncated" in out
    assert (
        "not whole  withheld by a content filter 1, cut at the token limit 1, ended for another reason 1, "
        "refused by the model 1, waiting for tools 1, without a stated end 1: not graded, reward 0" in out
    )
    assert "an answer did not end well (content_filter): it is kept with reward 0" in err
    found = json.loads(document)
    assert (found["measured"], found["not_graded"], found["score"]["mean"]) == (8, 6, 0.25)
    assert found["ends"] == dict.fromkeys(ENDS[:6], 1)
    certificate = certify(RolloutPaths(tmp_path / "out" / "rollouts.jsonl"))
    assert (certificate.valid, certificate.not_graded) == (True, 6)
    assert certificate.ends == dict.fromkeys(ENDS[:6], 1)
    assert any("6 answers did not end well" in note for note in certificate.notes)


def test_a_benchmark_has_such_answers_graded_also_afterwards_and_without_a_question(
    run, rows, tmp_path, capsys
):
    output = str(tmp_path / "out" / "rollouts.jsonl")
    with MockServer(faults=["length*"]) as server:
        run(server, "benchmark.graded_ends=[]")
        assert {row["reward"] for row in results(tmp_path)} == {0.0}
    flags = ["--rollouts", output, "--benchmark", "arithmetic", f"input_jsonl_fpath={rows}"]
    assert _status(["eval", "reverify", *flags, "benchmark.graded_ends=[max_output_tokens]"]) == 0
    assert {row["reward"] for row in results(tmp_path)} == {1.0}
    assert {row.get("_ng_not_graded") for row in results(tmp_path)} == {None}
    assert {row["_ng_end"] for row in results(tmp_path)} == {"max_output_tokens"}
    assert "cut at the token limit 8: graded all the same" in capsys.readouterr().out
    assert certify(RolloutPaths(tmp_path / "out" / "rollouts.jsonl")).not_graded == 0


def test_an_unknown_end_in_a_benchmark_is_refused_with_those_that_are_known(run):
    status, _, err = run(None, "benchmark.graded_ends=[length]", "policy_base_url=http://h/v1")
    assert status == 1
    assert "benchmark.graded_ends" in err
    assert "max_output_tokens" in err


def test_thoughts_are_not_graded_and_counted_and_a_benchmark_may_say_otherwise(run, rows, tmp_path, capsys):
    with MockServer(answer="<think>It is 1.</think>\n\nIt is 99.") as server:
        _, out, _ = run(server)
    found = results(tmp_path)
    assert {row["extracted_answer"] for row in found} == {"99"}
    assert {row["ng_perf"]["reasoning_chars"] for row in found} == {len("It is 1.")}
    assert "thoughts in 8 answers: 64 characters" in out
    flags = ["--rollouts", str(tmp_path / "out" / "rollouts.jsonl"), "--benchmark", "arithmetic"]
    keys = ["benchmark.grade_reasoning=true", "benchmark.verifier.which=first"]
    assert _status(["eval", "reverify", *flags, f"input_jsonl_fpath={rows}", *keys]) == 0
    capsys.readouterr()
    assert {row["extracted_answer"] for row in results(tmp_path)} == {"1"}


def test_a_run_whose_requests_are_all_refused_alike_stops_early_and_names_the_way_out(run, tmp_path):
    error = {
        "message": "Unsupported value: 'temperature' does not support 0 with this model.",
        "param": "temperature",
    }
    with MockServer(faults=["400=" + json.dumps({"error": error}) + "*"]) as server:
        status, _, err = run(server, flags={"--concurrency": "1"})
        assert server.requests == 5
    assert status == 1
    assert "5 different rows were refused with the same client error and no request was answered" in err
    assert "responses_create_params.temperature=null" in err
    assert "the endpoint refused every request with the same client error" in err
    with MockServer() as server:
        status, _, _ = run(
            server, "responses_create_params.temperature=null", flags={"--output": "other/r.jsonl"}
        )
        assert status == 0
        assert "temperature" not in server.bodies[0]


def test_what_an_api_cannot_carry_is_refused_by_file_and_line_before_the_first_request(run, rows):
    own = {"input": [{"role": "user", "content": "hi"}, {"type": "web_search_call", "id": "w"}]}
    row = {"question": "x", "expected_answer": "1", "responses_create_params": own}
    rows.write_text(rows.read_text() + json.dumps(row) + "\n")
    with MockServer() as server:
        status, _, err = run(server, "benchmark.prompt=null")
        assert server.requests == 0
    assert status == 1
    assert f"{rows}:1: lacks responses_create_params.input" in err
    rows.write_text(json.dumps(row) + "\n")
    with MockServer() as server:
        status, _, err = run(server, "benchmark.prompt=null")
        assert server.requests == 0
    assert f"{rows}:1: its responses_create_params make no request: input[1] is a 'web_search_call'" in err


def test_a_whole_address_of_the_api_is_understood(run):
    with MockServer() as server:
        status, _, _ = run(server, flags={"--model-url": f"{server.base_url}/chat/completions"})
        assert (status, server.requests) == (0, 8)
        flags = {"--model-url": f"{server.base_url}/responses", "--output": "other/r.jsonl"}
        status, _, err = run(server, flags=flags)
        assert server.requests == 8
    assert status == 1
    assert f"write {server.base_url}, with policy_api=responses if that is meant" in err


def test_instructions_go_in_the_role_that_the_run_names(run):
    with MockServer() as server:
        tokens = ["+benchmark.prompt.system='Be brief.'", "policy_system_role=developer", "--limit", "1"]
        assert run(server, *tokens)[0] == 0
        assert server.bodies[0]["messages"][0] == {"role": "developer", "content": "Be brief."}


@pytest.mark.parametrize("progress", [None, {"state": "running"}, {"state": "drained"}, "{"])
def test_a_run_whose_rows_are_all_there_needs_no_server_whatever_its_progress_says(run, tmp_path, progress):
    with MockServer() as server:
        run(server)
        dead = server.base_url
    out = tmp_path / "out"
    for name in ("rollouts_aggregate_metrics.json", "rollouts_coverage.json", "progress.json"):
        (out / name).unlink()
    if progress is not None:
        text = progress if isinstance(progress, str) else json.dumps(progress)
        (out / "progress.json").write_text(text)
    before = (out / "rollouts.jsonl").read_bytes()
    status, text, err = run(None, "--resume", flags={"--model-url": dead})
    assert status == 0, err
    assert "100.0%" in text
    assert "complete: all 8 rollouts have a result." in err
    assert (out / "rollouts.jsonl").read_bytes() == before
    assert json.loads((out / "rollouts_coverage.json").read_bytes())["measured"] == 8
    assert (out / "rollouts_aggregate_metrics.json").exists()


@pytest.mark.parametrize("frame", [lambda data: data.replace(b"\n", b"\r\n"), lambda data: data[:-1]])
def test_neither_does_one_whose_rows_only_stand_in_another_framing(run, tmp_path, frame):
    with MockServer() as server:
        run(server)
        dead = server.base_url
    path = tmp_path / "out" / "rollouts.jsonl"
    before = path.read_bytes()
    path.write_bytes(frame(before))
    assert run(None, "--resume", flags={"--model-url": dead})[0] == 0
    assert path.read_bytes() == before


def test_one_row_too_few_asks_the_server(run, tmp_path):
    with MockServer() as server:
        run(server)
    path = tmp_path / "out" / "rollouts.jsonl"
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    with MockServer() as server:
        assert run(server, "--resume")[0] == 0
        assert server.requests == 1


def own_benchmark(tmp_path, name, verifier, data="rows.jsonl", prompt="{question}"):
    path = tmp_path / name
    path.write_text(
        "benchmark:\n  name: own\n"
        f"  datasets: {{benchmark: {{jsonl_fpath: {data}}}}}\n"
        f"  prompt: {{user: '{prompt}'}}\n"
        f"  verifier: {verifier}\n"
    )
    return {"--benchmark": None, "--input": None, "-c": str(path)}


GRADER = """
import os
from pathlib import Path
from pydantic import BaseModel
from nemo_gym.types import Verdict

class Grader:
    class Options(BaseModel):
        pass
    def __init__(self, options, models): pass
    def check_row(self, row): return None
    async def verify(self, task, episode):
        if Path("broken").exists():
            raise KeyError("no such option")
        return Verdict(1.0, episode.text)
"""


@pytest.fixture
def grader(tmp_path, monkeypatch):
    """A benchmark's config with a grader of an outsider, which raises as long as a file `broken` is there."""
    info = tmp_path / "site" / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nemo_gym.verifiers]\nodd = odd_grader:Grader\n")
    (tmp_path / "site" / "odd_grader.py").write_text(GRADER)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield own_benchmark(tmp_path, "odd.yaml", "{type: odd}")
    sys.modules.pop("odd_grader", None)


def test_a_grader_that_raises_costs_no_answer_and_is_told_by_file_and_line(run, tmp_path, grader):
    (tmp_path / "broken").touch()
    with MockServer() as server:
        status, _, err = run(server, flags=grader)
        assert server.requests == 8
        dead = server.base_url
    assert status == 76
    where = f"{tmp_path / 'site' / 'odd_grader.py'}:14, in verify"
    whose = "the verifier 'odd' of the package odd"
    assert (
        f"grading an answer failed (KeyError): {whose}: 'no such option' ({where}). The answer is kept."
        in err
    )
    assert "8 have an answer, but grading it failed" in err
    failures = (tmp_path / "out" / "rollouts_failures.jsonl").read_text().splitlines()
    assert where in json.loads(failures[0])["_ng_failure_message"]
    (tmp_path / "broken").unlink()
    status, out, err = run(None, "--resume", flags={**grader, "--model-url": dead})
    assert status == 0, err
    assert "8 answers are stored without a grade; that is made up for first, without a request." in err
    assert "100.0%" in out
    assert sorted(identities(tmp_path)) == [(n, 0) for n in range(8)]
    assert not (tmp_path / "out" / "rollouts_answers.jsonl").exists()


def test_reverify_grades_what_the_run_could_not(run, tmp_path, grader, capsys):
    (tmp_path / "broken").touch()
    with MockServer() as server:
        run(server, flags=grader)
    command = ["eval", "reverify", "--rollouts", str(tmp_path / "out" / "rollouts.jsonl"), "-c"]
    assert _status([*command, grader["-c"]]) == 1
    assert "odd_grader.py:14, in verify" in capsys.readouterr().err
    mended = own_benchmark(tmp_path, "mended.yaml", "{type: match, mode: numeric}")
    assert _status([*command, mended["-c"]]) == 0
    said = capsys.readouterr()
    assert "100.0%" in said.out
    assert "0 of 8 grades changed" in said.err
    assert "8 of them had no grade before" in said.err
    assert sorted(identities(tmp_path)) == [(n, 0) for n in range(8)]


@pytest.mark.parametrize("name", ["response", "reward", "extracted_answer", "ng_perf", "mask_sample"])
def test_data_with_a_name_of_ours_is_graded_right_and_again_the_same(run, tmp_path, capsys, name):
    data = tmp_path / "own.jsonl"
    rows = [{"q": f"What is {n} + 1?", name: str(n + 1 + (n == 2)), "level": 1.5} for n in range(3)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    verifier = f"{{type: match, mode: numeric, answer_field: {name}}}"
    with MockServer() as server:
        status, out, err = run(server, flags=own_benchmark(tmp_path, "c.yaml", verifier, "own.jsonl", "{q}"))
    assert status == 0, err
    assert "66.7%" in out
    assert "3 of 3 expected rollouts" in out
    for _ in range(2):
        rollouts = str(tmp_path / "out" / "rollouts.jsonl")
        assert _status(["eval", "reverify", "--rollouts", rollouts, "-c", str(tmp_path / "c.yaml")]) == 0
        said = capsys.readouterr()
        assert "0 of 3 grades changed" in said.err
        assert "66.7%" in said.out


def test_failures_that_are_exhausted_name_the_setting_that_limits_them(run):
    with MockServer(faults_for={"What is 3": ["400*"]}) as server:
        status, _, err = run(server, "max_rollout_attempts=2")
    assert status == 76
    assert "1 failed as often as max_rollout_attempts (2) allows" in err
    with MockServer() as server:
        assert run(server, "--resume", "max_rollout_attempts=3")[0] == 0
        assert server.requests == 1

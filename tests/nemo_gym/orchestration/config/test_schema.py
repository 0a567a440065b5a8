"""What a submit file may hold, and the sentence for each thing that it may not."""

import copy
from typing import Any

import pytest
from tests.nemo_gym.orchestration.submit_files import BASE, VLLM, changed

from nemo_gym.composition import check_model
from nemo_gym.errors import ConfigError, UnsupportedError
from nemo_gym.orchestration.config import rules
from nemo_gym.orchestration.config.schema import BenchmarkJob, Resumable, SubmitConfig
from nemo_gym.orchestration.executors.fake import FakeJobExecutor


def config(changes: dict[str, Any] | None = None) -> SubmitConfig:
    return check_model(SubmitConfig, changed(changes or {}), where="submit.yaml")


def problem(changes: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        rules.check(config(changes))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_smallest_config_passes_with_its_defaults():
    found = config()
    rules.check(found)
    assert found.machine.max_parallel == 1
    assert found.machine.walltime is None
    assert found.services["policy"].port is None
    assert found.otel is None
    assert rules.warnings(found) == []


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"compute/here/walltimes": "10"}, ["unknown key compute.here.walltimes", "compute.here.walltime"]),
        ({"services/policy/modelname": "x"}, ["unknown key services.policy.modelname", "model_name"]),
        ({"driver/benchmarks/sums/runs": {}}, ["unknown key driver.benchmarks.sums.runs", "run"]),
        ({"compute/here/type": "cloud"}, ["compute.here", "type must be local or slurm"]),
        ({"services/policy/type": "tgi"}, ["services.policy"]),
        ({"job": ...}, ["missing job"]),
        ({"driver/benchmarks": {}}, ["driver.benchmarks"]),
        ({"compute/here/walltime": "soon"}, ["compute.here.walltime"]),
        ({"compute/here/walltime": 172800}, ["compute.here.walltime", "quote it"]),
        ({"compute/here/max_parallel": 0}, ["compute.here.max_parallel"]),
        ({"compute/here/max_parallel": 2**31}, ["compute.here.max_parallel", "2147483647"]),
        ({"compute/here/gpus": 2**63}, ["compute.here.gpus", "2147483647"]),
        ({"driver/benchmarks/sums/resumable": {"max_retries": 2**63}}, ["max_retries", "2147483647"]),
        ({"compute/here/walltime": f"{10**15}-00"}, ["compute.here.walltime"]),
        ({"compute/here/gpus": -1}, ["compute.here.gpus"]),
        ({"services/policy/port": "8000"}, ["services.policy.port", "must be a whole number"]),
        ({"services/policy/port": 70000}, ["services.policy.port"]),
        ({"services/policy/env": {"A-B": "x"}}, ["services.policy.env", "A-B"]),
        ({"services/policy/env": {"A": "host:no way"}}, ["services.policy.env", "no way"]),
        ({"services/policy/env": {"A": True}}, ["services.policy.env.A", 'quote it: "true"']),
        ({"services/policy/env": {"A": [3]}}, ["services.policy.env.A", "must be text"]),
        ({"driver/env": {"1A": "x"}}, ["driver.env", "1A"]),
        ({"driver/mounts": ["relative:/x"]}, ["driver.mounts", "relative:/x"]),
        ({"driver/mounts": ["/a:/b:ro:x"]}, ["driver.mounts"]),
        ({"driver/benchmarks/a b": {"command": "x"}}, ["driver.benchmarks", "'a b'"]),
        ({"driver/benchmarks/..": {"command": "x"}}, ["driver.benchmarks", "'..'"]),
        ({f"driver/benchmarks/{'a' * 129}": {"command": "x"}}, ["driver.benchmarks", "longer than 128"]),
        ({f"services/{'s' * 250}": {}}, ["services", "longer than 128"]),
        ({"services/policy/health_check": {"path": "health"}}, ["services.policy.health_check.path"]),
        ({"driver/benchmarks/sums/resumable": {"max_retries": -1}}, ["resumable"]),
        ({"driver/benchmarks/sums/resumable": {"max_walltime": 172800}}, ["max_walltime", "quote it"]),
        ({"driver/benchmarks/sums/resumable": {"retries": 1}}, ["resumable.retries"]),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_dotted_path(changes: dict[str, Any], parts: list[str]):
    text = problem(changes)
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"compute": {}}, "compute: one entry is needed, such as compute.here.type=local; none is there."),
        (
            {"compute/there": {"type": "local"}},
            "compute: exactly one entry is supported; there are here, there.",
        ),
        (
            {"services/policy/placement": "there"},
            "services.policy.placement: 'there' is not a compute entry; there is here.",
        ),
        (
            {"services/policy/node_pool": "gpu"},
            "services.policy.node_pool: compute.here declares no node pools; leave it out.",
        ),
        (
            {"driver/policy_model": "polcy"},
            "driver.policy_model: 'polcy' is not a service (did you mean 'policy'?).",
        ),
        (
            {"driver/benchmarks/sums/run/policy_base_url": "http://x/v1"},
            (
                "driver.benchmarks.sums.run: policy_base_url would be overruled by driver.policy_model "
                "(policy); leave out one or the other."
            ),
        ),
        (
            {"driver/benchmarks/sums/run/output_jsonl_fpath": "x.jsonl"},
            (
                "driver.benchmarks.sums.run.output_jsonl_fpath: submit puts results into the run directory; "
                "leave it out."
            ),
        ),
        (
            {"driver/benchmarks/sums/command": "true"},
            (
                "driver.benchmarks.sums.command: a command runs instead of gym eval run; leave out "
                "driver.benchmarks.sums.run or the command."
            ),
        ),
        (
            {"driver/benchmarks/sums": {"command": "true", "resumable": True}},
            (
                "driver.benchmarks.sums.resumable: not with a command, since resuming relies on the cache of "
                "gym eval run."
            ),
        ),
        (
            {"driver/benchmarks/sums/run": {}},
            (
                "driver.benchmarks.sums: nothing to run; set driver.benchmarks.sums.run (config_paths, at "
                "least) or driver.benchmarks.sums.command."
            ),
        ),
        (
            {"services/policy/command": "serve"},
            (
                "services.policy.command: it cannot learn the port chosen when the job runs; write {port} in "
                "it, or set services.policy.port."
            ),
        ),
        (
            {"services/driver": dict(VLLM)},
            "services.driver: the name is taken by a log of the job itself; choose another.",
        ),
        (
            {"services/a.b": dict(VLLM), "services/a-b": dict(VLLM)},
            "services.a-b: too like services.a.b, both become A_B; choose another.",
        ),
        (
            {"services/a": {**VLLM, "port": 8000}, "services/b": {**VLLM, "port": 8000}},
            "services.b.port: 8000 is the port of services.a too; leave it out.",
        ),
        (
            {"services/a": {**VLLM, "extra_args": "--host 0.0.0.0"}},
            "services.a.extra_args: --host is set by submit (it depends on the node); take it out.",
        ),
        (
            {"services/a": {**VLLM, "extra_args": "--x 'y"}},
            (
                "services.a.extra_args: it cannot be split into words (No closing quotation); "
                "quote it as for a shell."
            ),
        ),
        (
            {"driver/benchmarks/gym-job.json": {"command": "x"}},
            (
                "driver.benchmarks.gym-job.json: the name is taken by a file of the run directory; "
                "choose another."
            ),
        ),
        (
            {"otel": {"endpoint": "http://x"}},
            "otel.service_name: it is needed; set it, or otel.enabled=false.",
        ),
        (
            {"driver/env": {"A": "a\0b"}},
            "driver.env.A: a NUL character can be in no file name, argument or variable; take it out.",
        ),
    ],
)
def test_a_broken_rule_is_one_sentence_with_path_and_remedy(changes: dict[str, Any], sentence: str):
    assert problem(changes) == sentence


def test_a_fixed_port_is_refused_where_jobs_run_at_once_and_allowed_where_they_do_not():
    fixed = {"services/policy/port": 8000, "driver/benchmarks/two": {"command": "x"}}
    rules.check(config(fixed))
    assert "2 jobs run at once" in problem({**fixed, "compute/here/max_parallel": 4})


def test_gpus_needed_are_tensor_by_pipeline_by_instances_over_all_services_and_jobs_at_once():
    big = {**VLLM, "tensor_parallel_size": 2, "pipeline_parallel_size": 2, "number_of_instances": 2}
    rules.check(config({"services/a": big, "compute/here/gpus": 8}))
    assert "7 GPUs are there and 8 are needed" in problem({"services/a": big, "compute/here/gpus": 7})
    both = {"services/a": big, "services/b": dict(VLLM), "compute/here/gpus": 8}
    assert "9 are needed" in problem(both)
    twice = {"services/b": dict(VLLM), "compute/here/gpus": 1, "compute/here/max_parallel": 2}
    text = problem({**twice, "driver/benchmarks/two": {"command": "x"}})
    assert "2 are needed" in text
    assert "by 2 jobs at once" in text


def test_idle_gpus_are_a_warning():
    found = rules.warnings(config({"services/a": dict(VLLM), "compute/here/gpus": 4}))
    assert found == ["compute.here.gpus: 3 of 4 GPUs stay idle."]


def test_a_literal_under_a_name_that_looks_secret_is_a_warning_that_does_not_repeat_it():
    env = {"HF_TOKEN": "canary-1", "KEYBOARD": "x", "API_KEY": "lit:none", "OTHER_KEY": "host:A"}
    found = rules.warnings(config({"services/policy/env": env}))
    assert len(found) == 1
    assert found[0].startswith("services.policy.env.HF_TOKEN:")
    assert "canary" not in found[0]


@pytest.mark.parametrize("path", ["services/policy/env", "driver/env"])
def test_a_value_of_the_wrong_type_is_never_repeated_in_the_message(path: str):
    text = problem({path: {"HF_TOKEN": ["canary-2"], "B": "runtime:canary 2"}})
    assert "canary-2" not in text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"max_retrys": 1}, "unknown key {}.max_retrys (did you mean '{}.max_retries'?)."),
        ([1], "{} (must be true or false or must be a mapping of keys to values)."),
    ],
)
def test_of_two_forms_that_a_value_may_have_the_one_that_was_meant_is_spoken_of(value, said):
    with pytest.raises(ConfigError) as caught:
        check_model(SubmitConfig, changed({"driver/benchmarks/sums/resumable": value}), where="f")
    assert str(caught.value) == f"f: {said}".replace("{}", "driver.benchmarks.sums.resumable")


def test_resumable_is_understood_in_each_of_its_forms():
    assert BenchmarkJob(command="x").chain is None
    assert BenchmarkJob(run={"a": 1}, resumable=True).chain == Resumable(max_retries=3, max_walltime=None)
    tuned = BenchmarkJob(resumable=Resumable(max_retries=5, max_walltime="48:00:00"))
    assert tuned.chain is not None
    assert (tuned.chain.max_retries, tuned.chain.max_walltime) == (5, "48:00:00")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"driver/benchmarks/sums/resumable": True}, "driver.benchmarks.sums.resumable"),
        ({"driver/benchmarks/sums/resumable": {"max_retries": 1}}, "driver.benchmarks.sums.resumable"),
        ({"services/policy/container": "image"}, "services.policy.container"),
        ({"driver/container": "image"}, "driver.container"),
        ({"driver/mounts": ["/a:/b"]}, "driver.mounts"),
        ({"services/policy/mounts": ["/a:/a:ro"]}, "services.policy.mounts"),
        ({"otel": {"container": "image", "enabled": False}}, "otel.container"),
    ],
)
def test_what_the_executor_cannot_do_is_refused_with_its_name_and_a_remedy(
    changes: dict[str, Any], path: str
):
    found = config(changes)
    rules.check(found)
    with pytest.raises(UnsupportedError) as caught:
        rules.refuse_unsupported(found, FakeJobExecutor())
    text = str(caught.value)
    assert text.startswith(path)
    assert "fake" in text
    assert any(word in text for word in ("leave", "use the path", "set driver.gym"))


INSTALL = {"repo": "https://git.example/gym.git", "ref": "v1"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"driver/gym": "/opt/gym"}, "driver.gym_install: driver.gym names a program already"),
        ({"driver/container": "image"}, "driver.gym_install: a Gym is installed for the machine of the job"),
        ({"driver/gym_install/repo": "../gym"}, "driver.gym_install.repo: it must be a URL or an absolute"),
        ({"driver/gym_install/repo": "--upload-pack=x"}, "driver.gym_install.repo: it must be a URL"),
        ({"driver/gym_install/repo": "https://me:s3cret@git.example/gym"}, "a login in an address"),
        ({"driver/gym_install/repo": "https://s3cret@git.example/gym"}, "a login in an address"),
        ({"driver/gym_install/ref": "--help"}, "driver.gym_install.ref: '--help' cannot be a tag"),
        ({"driver/gym_install/ref": "a..b"}, "driver.gym_install.ref: 'a..b' cannot be a tag"),
        ({"driver/gym_install/ref": "v1^{tree}"}, "driver.gym_install.ref: "),
    ],
)
def test_a_gym_that_cannot_be_installed_is_refused_without_repeating_a_password(changes, words):
    said = problem({"driver/gym_install": dict(INSTALL), **changes})
    assert words in said
    assert "s3cret" not in said


@pytest.mark.parametrize(
    "repo",
    ["/srv/gym", "https://git.example/a/b", "ssh://git@git.example:22/gym", "git@git.example:a/gym.git"],
)
def test_a_gym_to_be_installed_has_a_repository_that_git_can_clone(repo):
    found = config({"driver/gym_install": {"repo": repo, "ref": "feature/x-1.0"}})
    rules.check(found)
    rules.refuse_unsupported(found, FakeJobExecutor())


@pytest.mark.parametrize("key", ["repo", "ref"])
def test_a_gym_to_be_installed_needs_repository_and_ref(key):
    with pytest.raises(ConfigError, match=rf"driver\.gym_install\.{key}"):
        config({"driver/gym_install": dict(INSTALL), f"driver/gym_install/{key}": ...})


def test_only_executors_that_support_it_may_set_resumable():
    class Chaining(FakeJobExecutor):
        supports_resumable = True

    rules.refuse_unsupported(config({"driver/benchmarks/sums/resumable": True}), Chaining())


def test_mounts_at_their_own_path_need_no_container():
    rules.refuse_unsupported(config({"driver/mounts": ["/tmp", "/tmp:/tmp"]}), FakeJobExecutor())


def test_validation_changes_neither_its_input_nor_the_config():
    before = copy.deepcopy(BASE)
    found = check_model(SubmitConfig, BASE, where="submit.yaml")
    dumped = found.model_dump(mode="json")
    rules.check(found)
    assert before == BASE
    assert found.model_dump(mode="json") == dumped
    assert check_model(SubmitConfig, dumped, where="again") == found


def test_a_chain_without_a_limit_on_what_the_scheduler_ends_is_warned_of_once():
    on = {"driver/benchmarks/sums/resumable": True, "driver/benchmarks/more": {"command": "true"}}
    also = {"driver/benchmarks/other": {"run": {"config_paths": ["x"]}, "resumable": {"max_retries": 9}}}
    (warning,) = rules.warnings(config({**on, **also}))
    assert warning.startswith("driver.benchmarks.sums, other: ")
    for name in ("max_walltime", "max_links_without_progress", "without a limit"):
        assert name in warning
    for limit in ({"max_walltime": "48:00:00"}, {"max_links_without_progress": 5}):
        assert rules.warnings(config({"driver/benchmarks/sums/resumable": limit})) == []


def test_a_chain_that_may_not_go_on_with_its_own_rollouts_is_warned_of_by_both_names():
    limited = {"driver/benchmarks/sums/resumable": {"max_walltime": "48:00:00"}}
    key = "driver/benchmarks/sums/run/resume_from_cache"
    assert rules.warnings(config({**limited, key: True})) == []
    (warning,) = rules.warnings(config({**limited, key: False}))
    assert "driver.benchmarks.sums.resumable" in warning
    assert "driver.benchmarks.sums.run.resume_from_cache is false" in warning

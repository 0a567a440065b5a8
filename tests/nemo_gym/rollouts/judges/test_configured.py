"""Where judges that are services of a job answer."""

from nemo_gym.rollouts.judges.configured import judges_of
from nemo_gym.rollouts.run_config.schema import RunConfig


def test_a_judge_that_is_a_service_with_replicas_is_asked_at_all_of_them():
    benchmark = {
        "name": "b",
        "datasets": {"benchmark": {"jsonl_fpath": "/rows.jsonl"}},
        "prompt": {"user": "{question}"},
        "verifier": {"type": "match"},
    }
    judge = {"service": "judge"}
    config = RunConfig.model_validate({"benchmark": benchmark, "judge_models": {"one": judge}})
    lines = "policy http://h:1/v1 p\njudge http://h:2/v1 j\njudge http://n2:3/v1 j\n"
    found = judges_of(config, {"NEMO_GYM_SERVICES": lines})["one"].endpoint
    assert (found.base_url, found.replica_urls, found.model) == ("http://h:2/v1", ("http://n2:3/v1",), "j")
    assert [one.base_url for one in found.each] == ["http://h:2/v1", "http://n2:3/v1"]

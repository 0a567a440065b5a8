"""What is paid for hours and tokens, by example; what has no price is never free."""

import json

import pytest
from tests.nemo_gym.orchestration.results.test_bill_inputs import Chain
from tests.result_rows import result, write_output

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.price_schema import PriceList
from nemo_gym.orchestration.config.settings import load_settings
from nemo_gym.orchestration.records.locations import SubmissionLocation
from nemo_gym.orchestration.results import bill_report
from nemo_gym.orchestration.results.bill_costs import JobPlace, TokenUse, costs_of, place_of, total_of
from nemo_gym.rollouts.scores.aggregate import aggregate

PRICES = PriceList(
    currency="EUR",
    gpu_hour={"a100": 2.0, "gpu": 1.0, "default": 0.5},
    core_hour={"gpu": 0.1},
    million_tokens={"tiny": {"input": 1.0, "output": 4.0}},
)
TOKENS = TokenUse("tiny", 2_000_000, 500_000)


def priced(gpu_hours=3.0, place=None, tokens=TOKENS, judges=None, prices=PRICES, **judge_prices):
    place = place or JobPlace(("a100", "gpu"), cores=8, has_services=True)
    return costs_of(gpu_hours, 2.0, place, tokens, judges or {}, prices, judge_prices=judge_prices)


def test_each_part_has_its_price_and_the_total_is_their_sum():
    found = priced(judges={"j": TokenUse("tiny", 1_000_000, 0)})
    assert (found.gpu_cost, found.core_hours, found.core_cost) == (6.0, 16.0, pytest.approx(1.6))
    assert (found.token_cost, found.judge_costs) == (4.0, {"j": 1.0})
    assert found.total == pytest.approx(12.6)
    assert found.to_json()["cost"]["judges"] == 1.0


def test_what_has_no_price_is_null_and_so_is_the_total():
    found = priced(tokens=TokenUse("other", 10, 10), judges={"j": TokenUse(None, 1, 1)})
    assert (found.token_cost, found.judge_costs, found.total) == (None, {"j": None}, None)
    assert found.unknown == ("tokens of other", "tokens of the judge j")
    nothing = priced(prices=PriceList())
    assert (nothing.gpu_cost, nothing.token_cost, nothing.total) == (None, None, None)
    assert nothing.to_json()["cost"] == dict.fromkeys(("gpus", "cores", "tokens", "judges", "total"))
    unknown_gpus = priced(gpu_hours=None)
    assert (unknown_gpus.gpu_cost, unknown_gpus.total) == (None, None)


def test_what_was_not_used_needs_no_price():
    remote = priced(gpu_hours=None, place=JobPlace(("here",)))
    assert (remote.gpu_cost, remote.total) == (None, 4.0)
    own = priced(tokens=TokenUse("mine", 9e6, 9e6, served_by_job=True))
    assert (own.token_cost, own.total) == (None, pytest.approx(7.6))


def test_the_price_of_a_judge_in_the_config_of_the_run_goes_first():
    dear = {"j": PRICES.million_tokens["tiny"].model_copy(update={"input": 10.0})}
    assert priced(judges={"j": TokenUse("tiny", 1_000_000, 0)}, **dear).judge_costs == {"j": 10.0}


def test_the_type_of_gpu_goes_before_the_partition_and_that_before_the_compute_entry():
    pool = {"partition": "gpu", "nodes": 2, "ntasks_per_node": 2, "extra_args": {"gres": "gpu:h100:4"}}
    config = {
        "compute": {"big": {"node_pools": {"a": pool}, "extra_args": {"cpus-per-task": 16}}},
        "services": {"policy": {}},
    }
    assert place_of(config) == JobPlace(("h100", "gpu", "big"), cores=64, has_services=True)
    assert place_of({"compute": {"here": {"type": "local"}}}) == JobPlace(("here",), None, False)
    assert place_of({}) == JobPlace()
    other = PriceList(gpu_hour={"default": 0.5})
    assert priced(prices=other, tokens=None).gpu_cost == 1.5


def test_a_sum_with_an_unknown_part_is_unknown():
    assert total_of([priced(), priced()]) == pytest.approx(23.2)
    assert total_of([priced(), priced(gpu_hours=None)]) is None
    assert total_of([]) is None


def test_a_bill_shows_tokens_and_money_of_the_files_of_a_run(tmp_path):
    chain = Chain(tmp_path)
    chain.paths.run_config.write_text(
        "policy_model_name: tiny\njudge_models: {j: {model: big, base_url: 'http://x/v1', "
        "price_per_million_tokens: {input: 1000000.0, output: 0.0}}}\n"
    )
    chain.link("7", job_started=0, driver_started=10, driver_ended=3000, job_ended=3600)
    used = {"_ng_judges": {"j": {"requests": 1, "prompt_tokens": 2, "completion_tokens": 1, "latency_ms": 5}}}
    paths = write_output(chain.paths.artifacts, {(0, 0): result(**used)}, tasks=1, repeats=1)
    aggregate(paths, num_tasks=1, num_repeats=1)
    location = SubmissionLocation(chain.record, tmp_path)
    prices = PRICES.model_copy(update={"gpu_hour": {"big": 1.5}})
    found = bill_report.bills_of(location, prices)
    document = bill_report.to_json(found)
    [benchmark] = document["benchmarks"]
    assert benchmark["tokens"] == {"model": "tiny", "input": 10, "output": 1, "served_by_job": False}
    assert benchmark["judges"]["j"]["cost"] == 2.0
    assert benchmark["cost"]["gpus"] == pytest.approx(18.0)
    assert document["total"]["cost"] == pytest.approx(20.000014)
    assert document["total"]["currency"] == "EUR"
    text = bill_report.to_text(found)
    assert "10 tokens in, 1 out (tiny), 0.00 EUR" in text
    assert "judge j: 2 tokens in, 1 out (big), 2.00 EUR" in text
    assert "together 20.00 EUR" in text
    without = bill_report.to_json(bill_report.bills_of(location, PriceList()))
    assert without["total"]["cost"] is None


def test_settings_are_read_from_the_users_own_folder_and_checked(tmp_path):
    folder = tmp_path / "nemo-gym"
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert load_settings(environ).prices == PriceList()
    folder.mkdir()
    (folder / "settings.yaml").write_text("prices: {currency: EUR, gpu_hour: {a100: 2}}\n")
    assert load_settings(environ).prices.gpu_hour == {"a100": 2.0}
    (folder / "settings.yaml").write_text("prices: {gpu_hours: {a100: 2}}\n")
    with pytest.raises(ConfigError, match=r"settings\.yaml: unknown key prices\.gpu_hours.*gpu_hour"):
        load_settings(environ)
    with pytest.raises(ConfigError, match="none"):
        load_settings({"NEMO_GYM_SETTINGS": str(tmp_path / "none.yaml")})


def test_json_holds_no_number_that_is_none():
    assert json.loads(json.dumps(priced().to_json()))["without_price"] == []

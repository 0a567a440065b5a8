"""`nemo profiles`: the list, and a check with its exit status."""

import pytest

PROFILES = "/apis/jobs/v2/execution-profiles"
SEVERAL = ["cpu/default", "gpu/short", "subprocess/default"]
LINES = """\
ok       partition: main is up
warning  walltime: it is not set
"""


@pytest.fixture(autouse=True)
def several_profiles(service):
    service.profiles = SEVERAL


def test_a_check_prints_a_line_for_each_finding(service, nemo):
    ran = nemo("profiles", "check", "subprocess/default")
    assert ran == (0, LINES, "")
    assert [(one["method"], one["path"]) for one in service.requests] == [
        ("POST", f"{PROFILES}/subprocess/default/check")
    ]


def test_a_problem_ends_it_with_1(service, nemo):
    service.findings.append({"verdict": "problem", "about": "account", "text": "config.account: nobody."})
    ran = nemo("profiles", "check", "subprocess/default")
    assert ran == (1, LINES + "problem  account: config.account: nobody.\n", "")


@pytest.mark.parametrize("words", [("--json",), ("-f", "json"), ("-f", "yaml"), ("-f", "raw")])
def test_it_is_one_document_where_that_is_asked_for(service, nemo, words):
    import yaml

    ran = nemo("profiles", "check", "subprocess/default", *words)
    found = yaml.safe_load(ran.out)
    assert (ran.status, found["ok"], found["backend"]) == (0, True, "subprocess")
    assert found["findings"][0] == {"verdict": "ok", "about": "partition", "text": "main is up"}


def test_a_verdict_of_a_newer_service_is_printed_as_it_is(service, nemo):
    service.findings[:] = [{"verdict": "advice", "about": "qos", "text": "use long"}]
    assert nemo("profiles", "check", "subprocess/default").out == "advice   qos: use long\n"


def test_the_name_alone_is_enough_where_one_provider_has_it(service, nemo):
    assert nemo("profiles", "check", "short").out == LINES
    assert service.requests[-1]["path"] == f"{PROFILES}/gpu/short/check"


@pytest.mark.parametrize("name", ["gpu/", "/short", "a/b/c", "/"])
def test_a_name_that_is_none_is_a_usage_error_and_asks_nothing(service, nemo, name):
    ran = nemo("profiles", "check", name)
    assert (ran.status, ran.out) == (2, "")
    assert f"'{name}' names no profile: give PROVIDER/PROFILE, such as gpu/default." in ran.err
    assert service.requests == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "default",
            "several providers have a profile 'default': give one of cpu/default, subprocess/default.",
        ),
        (
            "alps",
            "there is no execution profile 'alps'; there are cpu/default, gpu/short, subprocess/default.",
        ),
    ],
)
def test_a_name_that_means_no_profile_is_one_sentence(service, nemo, name, sentence):
    ran = nemo("profiles", "check", name)
    assert ran == (1, "", f"nemo: {sentence}\n")


def test_what_the_service_says_of_an_unknown_profile_is_passed_on(service, nemo):
    ran = nemo("profiles", "check", "gpu/alps")
    assert ran.status == 3
    assert "there is no execution profile 'gpu/alps'; there are cpu/default" in ran.err


def test_the_list_is_that_of_jobs(service, nemo):
    assert nemo("profiles", "list", "-f", "json") == nemo("jobs", "list-execution-profiles", "-f", "json")


def test_code_does_the_same(nemo):
    assert (
        "client.profiles.check(provider='gpu', profile='short')"
        in nemo("profiles", "check", "gpu/short", "-f", "code").out
    )

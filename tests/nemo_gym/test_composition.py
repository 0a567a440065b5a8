from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.composition import (
    KnownKeys,
    check_model,
    compose,
    drop_scratch,
    load_yaml,
    merge,
    parse_overrides,
    refuse_secrets,
)
from nemo_gym.errors import ConfigError, UsageError
from nemo_gym.spelling import plain

LEVELS = [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 9)]
ALIASES = f"{{l0: &l0 x, {', '.join(LEVELS)}}}"
"""Nine lists of nine lists of …: 43 million values in half a thousand characters."""


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("k=3", 3),
        ("k=-0.5", -0.5),
        ("k=1e-3", 0.001),
        ("k=null", None),
        ("k=true", True),
        ("k=", ""),
        ("k=[a, b]", ["a", "b"]),
        ("k={a: 1, b: [x]}", {"a": 1, "b": ["x"]}),
        ('k="3"', "3"),
        ("k=http://h:80/v1?a=b", "http://h:80/v1?a=b"),
        ("k=a: b # c", "a: b # c"),
        ("k=*star", "*star"),
        ("k=2026-01-02", "2026-01-02"),
        ("k=48:00:00", "48:00:00"),
        ("k=00:10:00", "00:10:00"),
        ("k=no", "no"),
        ("k=007", "007"),
        ("k=1_000", "1_000"),
        ("k=0x1f", 31),
        ("k==", "="),
        ("k=0o", "0o"),
        ("k=${oc.env:X}", "${oc.env:X}"),
    ],
)
def test_an_override_value_is_read_as_a_person_means_it(token: str, value: Any) -> None:
    (override,) = parse_overrides([token])
    assert (override.key, override.value, override.prefix) == ("k", value, "")
    assert type(plain(override.value)) is type(value)


@pytest.mark.parametrize("prefix", ["", "+", "++"])
def test_an_override_keeps_its_prefix_and_its_text(prefix: str) -> None:
    (override,) = parse_overrides([f"{prefix}a.b=1"])
    assert (override.prefix, override.parts, override.text) == (prefix, ["a", "b"], f"{prefix}a.b=1")


@pytest.mark.parametrize("token", ["a", "=1", "+=1", "+++a=1", "a..b=1", ".a=1", "a.=1", " a=1"])
def test_a_token_that_is_no_override_is_a_usage_error(token: str) -> None:
    with pytest.raises(UsageError, match="an override looks like key=value"):
        parse_overrides([token])


def test_a_broken_value_is_a_usage_error_that_does_not_repeat_it() -> None:
    with pytest.raises(
        UsageError,
        match=r"^policy_api_key: the value of this override "
        r"is not YAML",
    ) as caught:
        parse_overrides(['policy_api_key="sk-canary'])
    assert "canary" not in str(caught.value)
    with pytest.raises(UsageError, match="nested too deeply"):
        parse_overrides(["a=" + "[\n" * 9999])


def test_aliases_of_aliases_are_refused_on_the_command_line_too() -> None:
    with pytest.raises(UsageError, match=r"^a: the value of this override is not YAML"):
        parse_overrides([f"a={ALIASES}"])


def test_a_file_with_a_byte_order_mark_and_yml_suffix_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yml", b"\xef\xbb\xbfa: 1e-3\r\nb: 2026-01-01\r\n")
    assert load_yaml(path) == {"a": 0.001, "b": "2026-01-01"}


def test_an_empty_file_is_an_empty_mapping(tmp_path: Path) -> None:
    assert load_yaml(write(tmp_path / "a.yaml", "# nothing\n")) == {}


def test_anchors_and_merge_keys_work(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", "a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\n")
    assert load_yaml(path)["b"] == {"p": 1, "q": 3}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nwall: 48:00:00\n", 2, 'quote it: "48:00:00"'),
        ("a: 1\nwall: [12:30]\n", 2, 'quote it: "12:30"'),
        ("a: 1\nb: 2\na: 3\n", 3, "the key a is here a second time (first in line 1)"),
        ("a: 1\nb: {3: x}\n", 2, 'a key must be text; quote it: "3"'),
        ("a: 1\n b: 2\n", 2, "no valid YAML"),
        ("a: [1\n", 2, "no valid YAML"),
        ("a: 1\n---\nb: 2\n", 2, "no valid YAML"),
        ("a: !!python/object:os.system 1\n", 1, "no valid YAML"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    path = write(tmp_path / "a.yaml", text)
    with pytest.raises(ConfigError) as caught:
        load_yaml(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_time_that_yaml_reads_as_text_needs_no_quotes(tmp_path: Path) -> None:
    assert load_yaml(write(tmp_path / "a.yaml", "wall: 00:10:00\nat: 08:30\n")) == {
        "wall": "00:10:00",
        "at": "08:30",
    }


class Texts(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = ""
    either: str | int | None = None
    many: list[str] = []
    env: dict[str, str] = {}
    number: float = 0.0
    count: int = 0
    flag: bool = False
    free: Any = None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("name: 405", {"name": "405"}),
        ("name: 1e3", {"name": "1e3"}),
        ("name: 1.10", {"name": "1.10"}),
        ("name: 0123456", {"name": "0123456"}),
        ("name: 0x1F", {"name": "0x1F"}),
        ("name: 12_000", {"name": "12_000"}),
        ("name: 2026-01-02", {"name": "2026-01-02"}),
        ("name: 08:30", {"name": "08:30"}),
        ("name: NO", {"name": "NO"}),
        ("name: +5", {"name": "+5"}),
        ("name: .5", {"name": ".5"}),
        ("name: =", {"name": "="}),
        ("env: {VERSION: 3.10, ON: yes, N: 8}", {"env": {"VERSION": "3.10", "ON": "yes", "N": "8"}}),
        ("many: [1e5, 2, x]", {"many": ["1e5", "2", "x"]}),
        ("either: 7", {"either": 7}),
        ("number: 1e-3", {"number": 0.001}),
        ("number: 5", {"number": 5.0}),
        ("count: 007", {"count": 7}),
        ("count: 1_000", {"count": 1000}),
        ("flag: yes", {"flag": True}),
        ("flag: off", {"flag": False}),
        ("free: {a: 1e-3, b: NO, c: 010}", {"free": {"a": 0.001, "b": "NO", "c": "010"}}),
        ("v: &v 1.10\nname: *v", {"name": "1.10"}),
    ],
)
def test_a_value_arrives_as_it_was_written(tmp_path: Path, text: str, values: dict[str, Any]) -> None:
    content = load_yaml(write(tmp_path / "a.yaml", text))
    content.pop("v", None)
    model = check_model(Texts, content, where="a")
    assert model.model_dump(exclude_defaults=True) == {
        key: value for key, value in values.items() if value or isinstance(value, dict)
    }
    assert json.loads(json.dumps(model.free)) == model.free


def test_a_strict_schema_takes_plain_scalars_for_what_it_wants(tmp_path: Path) -> None:
    class Strict(Texts):
        model_config = ConfigDict(extra="forbid", strict=True)

    text = "name: 1e3\nflag: yes\ncount: 007\nnumber: 1_000\n"
    model = check_model(Strict, load_yaml(write(tmp_path / "a.yaml", text)), where="a")
    assert (model.name, model.flag, model.count, model.number) == ("1e3", True, 7, 1000.0)
    for wrong in ({"count": "8"}, {"flag": "true"}, {"flag": "maybe"}):
        with pytest.raises(ConfigError):
            check_model(Strict, wrong, where="a")


def test_an_override_arrives_as_it_was_written() -> None:
    config = compose({}, parse_overrides(["+name=1e3", "+env={V: 1.10}"]), known=None, where="x")
    model = check_model(Texts, config, where="x")
    assert (model.name, model.env) == ("1e3", {"V": "1.10"})


def test_interpolation_takes_a_number_as_it_was_written(tmp_path: Path) -> None:
    text = "_v: 1.10\nname: model-${_v}\nnumber: ${_v}\nenv: {V: '${_v}'}\nfree: [1e-3, '${_v}']\n"
    config = drop_scratch(compose(load_yaml(write(tmp_path / "a.yaml", text)), [], known=None, where="x"))
    model = check_model(Texts, config, where="x")
    assert (model.name, model.number, model.free) == ("model-1.10", 1.1, [0.001, 1.1])


def test_a_truth_value_where_text_is_wanted_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", "number: 1\nenv:\n  A: x\n  FLAG: true\n")
    with pytest.raises(ConfigError) as caught:
        check_model(Texts, load_yaml(path), where="a.yaml", files=[path])
    assert str(caught.value) == (
        f'a.yaml: env.FLAG (must be text; YAML reads true as a truth value in {path}:4; quote it: "true").'
    )


def test_a_quoted_duration_stays_text(tmp_path: Path) -> None:
    assert load_yaml(write(tmp_path / "a.yaml", 'wall: "48:00:00"\n')) == {"wall": "48:00:00"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a\n", "must hold a mapping"),
        (b"\xff\xfe", "not UTF-8"),
        (b"a: \x00", "YAML"),
        (b"a: " + b"[\n" * 9999, "nested too deeply"),
        (b"a: " + b"9" * 9999, "a value in it cannot be read"),
        (b"? [a]\n: 1\n", r"a key must be text\.$"),
        (f"a: {ALIASES}".encode(), "its aliases make more than 100,000"),
    ],
)
def test_a_file_that_is_no_mapping_of_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_yaml(write(tmp_path / "a.yaml", content))


def test_a_missing_file_and_a_folder_are_clean_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_yaml(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        load_yaml(tmp_path)


class _Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    temperature: float = 0
    options: dict[str, Any] = {}


class _Small(BaseModel):
    model_config = ConfigDict(extra="forbid")
    type: Literal["small"]
    size: int


class _Big(BaseModel):
    model_config = ConfigDict(extra="forbid")
    type: Literal["big"]
    width: int


class _Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    limit: int | None = None
    sampling: _Inner = _Inner()
    services: dict[str, Annotated[_Small | _Big, Field(discriminator="type")]] = {}
    splits: dict[Literal["train", "test"], _Inner] = {}


KNOWN = KnownKeys.of(_Outer)


def composed(config: dict[str, Any], *tokens: str) -> dict[str, Any]:
    return compose(config, parse_overrides(tokens), known=KNOWN, where="a.yaml")


def test_overrides_change_add_and_reach_into_lists() -> None:
    config = {"name": "x", "list": [1, {"a": 2}]}
    result = composed(config, "name=y", "limit=3", "+new.deep=1", "list.1.a=5", "++sampling.temperature=1")
    assert result == {
        "name": "y",
        "list": [1, {"a": 5}],
        "limit": 3,
        "new": {"deep": 1},
        "sampling": {"temperature": 1},
    }
    assert config == {"name": "x", "list": [1, {"a": 2}]}


def test_a_mapping_is_merged_into_a_mapping_and_a_list_replaced() -> None:
    assert composed({"a": {"x": 1}, "b": [1, 2]}, "a={y: 2}", "b=[3]") == {"a": {"x": 1, "y": 2}, "b": [3]}


def test_a_key_with_a_dot_in_it_is_found() -> None:
    assert composed({"services": {"mmlu.pro": {"size": 1}}}, "services.mmlu.pro.size=2") == {
        "services": {"mmlu.pro": {"size": 2}}
    }


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("limt=1", "limt: unknown key on the command line for a.yaml (did you mean 'limit'?)."),
        ("sampling.temprature=1", "(did you mean 'sampling.temperature'?)."),
        ("temperature=1", "(did you mean 'sampling.temperature'?)."),
        ("splits.tset.temperature=1", "(did you mean 'splits.test.temperature'?)."),
        ("services.one.szie=1", "(did you mean 'services.one.size'?)."),
        ("services.on.size=1", "(did you mean 'services.one.size'?)."),
        (
            "sampling.options.x=1",
            "sampling.options.x: unknown key on the command line for a.yaml; +sampling.opt",
        ),
        ("name.x=1", "name.x: unknown key on the command line for a.yaml"),
    ],
)
def test_an_unknown_key_is_refused_with_its_path_and_the_nearest_valid_one(token: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        composed({"name": "x", "services": {"one": {"type": "small", "size": 1}}}, token)
    assert message in str(caught.value)


def test_a_hint_does_not_repeat_a_value_that_may_be_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        composed({}, "sampling.options.api_key=sk-canary")
    assert "canary" not in str(caught.value)


def test_nothing_can_be_set_below_a_plain_value_or_outside_of_a_list() -> None:
    with pytest.raises(ConfigError, match=r"name.x: name is a plain value"):
        composed({"name": "x"}, "+name.x=1")
    with pytest.raises(ConfigError, match=r"list.7: list is a list of 1"):
        composed({"list": [1]}, "+list.7=1")


def test_a_scratch_key_can_be_changed_but_not_added() -> None:
    config = {"_images": {"vllm": "a"}, "name": "${_images.vllm}"}
    assert drop_scratch(composed(config, "_images.vllm=b")) == {"name": "b"}
    for token in ("+_typo=1", "++_typo=1", "+_typo.deep=1"):
        with pytest.raises(ConfigError, match="a scratch key cannot be added"):
            composed(config, token)


def test_interpolations_see_overrides_other_keys_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_TEST_NAME", "n1")
    config = {
        "a": {"b": 1},
        "c": "${a.b}",
        "d": "${oc.env:BATON_TEST_NAME}-x",
        "e": "${oc.env:BATON_TEST_UNSET,fallback}",
        "f": r"\${HOME}",
    }
    assert composed(config, "a.b=2") == {
        "a": {"b": 2}, "c": 2, "d": "n1-x", "e": "fallback", "f": "${HOME}",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${oc.env:BATON_TEST_UNSET}", "a.yaml: x.y: the environment variable BATON_TEST_UNSET is not set."),
        ("${no.such}", "a.yaml: x.y: Interpolation key 'no.such' not found"),
        ("${x.y}", "a.yaml: "),
        ("${broken", "a.yaml: "),
    ],
)
def test_an_interpolation_that_leads_nowhere_is_named(value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        composed({"x": {"y": value}})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_all_values_still_to_be_set_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"still to be set \(\?\?\?\): a, b\.0\.c\."):
        composed({"a": "???", "b": [{"c": "???"}], "d": 1})


@pytest.mark.parametrize(
    "config",
    [
        {"api_key": "${oc.env:BATON_SECRET}"},
        {"services": {"x": {"env": {"HF_TOKEN": "${oc.env:BATON_SECRET}"}}}},
        {"api_key": "${_shared.value}", "_shared": {"value": "${oc.env:BATON_SECRET}"}},
        {"s": {"password": "${.value}", "value": "x${oc.env:BATON_SECRET}"}},
        {"secrets": ["${oc.env:BATON_SECRET,none}"]},
        {"url": "http://u:${oc.env:API_TOKEN}@h"},
    ],
)
def test_a_secret_from_the_environment_is_refused_in_favour_of_host(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_SECRET", "canary")
    monkeypatch.setenv("API_TOKEN", "canary")
    with pytest.raises(ConfigError, match=r"write host:(BATON_SECRET|API_TOKEN)") as caught:
        composed(config)
    assert "canary" not in str(caught.value)


def test_harmless_uses_of_the_environment_are_not_refused() -> None:
    refuse_secrets(
        {
            "max_output_tokens": "${oc.env:LIMIT}",
            "token-server": {"model": "${oc.env:MODEL}"},
            "api_key": "${a}",
        },
        where="a.yaml",
    )


def test_a_circle_of_references_does_not_hang_the_secret_check() -> None:
    refuse_secrets({"api_key": "${b}", "b": "${api_key}"}, where="a.yaml")


def test_errors_of_the_schema_are_one_line_missing_first_then_reasons_then_unknown_keys() -> None:
    config = {
        "limit": "many",
        "services": {"a": {"type": "small", "sise": 3}, "b": {"type": "medium"}},
        "splits": {"tets": {}},
    }
    with pytest.raises(ConfigError) as caught:
        check_model(_Outer, config, where="a.yaml")
    message = str(caught.value)
    assert message.startswith("a.yaml: missing name, services.a.size; limit (")
    assert (
        "services.b (input tag 'medium' found using 'type' does not match any of the expected tags" in message
    )
    assert "unknown key services.a.sise (did you mean 'services.a.size'?)" in message
    assert "splits.tets (must be 'train' or 'test')" in message
    assert "\n" not in message


def test_a_wrong_value_is_not_repeated_in_the_message() -> None:
    with pytest.raises(ConfigError) as caught:
        check_model(_Outer, {"name": ["canary"], "limit": "canary"}, where="a.yaml")
    assert "canary" not in str(caught.value)


def test_merge_makes_fresh_containers() -> None:
    lower = {"a": {"b": [1]}}
    result = merge(lower, {"a": {"c": 2}})
    result["a"]["b"].append(3)
    assert lower == {"a": {"b": [1]}}

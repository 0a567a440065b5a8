"""Specs, options and names of uploads, before anybody is asked."""

from __future__ import annotations

import json
import os

import click
import pytest

from nemo_helix_plugin.cli import uploading
from nemo_helix_plugin.cli.commands.customization import specs
from nemo_helix_plugin.customization import backends


def test_words_win_over_the_options_file(tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("subprocess: {memory: 1Gi}\nhub: {token_secret: old}\n")
    found = specs.options(["subprocess.memory=16Gi", "checkpoints.steps=5"], str(file), "hub-key")
    assert found == {
        "subprocess": {"memory": "16Gi"},
        "checkpoints": {"steps": 5},
        "hub": {"token_secret": "hub-key"},
    }
    assert specs.options([], None, None) is None
    assert specs.options(["subprocess.memory=1000"], None, None) == {"subprocess": {"memory": "1000"}}


@pytest.mark.parametrize("word", ["memory=1", "subprocess.memory", "=1", "subprocess.=1", ".memory=1"])
def test_a_word_that_is_no_option_is_refused(word):
    with pytest.raises(click.UsageError, match=r"write backend\.key=value"):
        specs.options([word], None, None)


@pytest.mark.parametrize("word", ["docker.memory=1Gi", "subprocess.memory=much", "checkpoints.keep=1"])
def test_an_option_that_nobody_knows_is_named(word):
    with pytest.raises(click.UsageError, match=word.partition(".")[0]):
        specs.options([word], None, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is not JSON"), ("[1]", "must hold an object"), (None, "No such file")],
)
def test_a_spec_that_cannot_be_read_is_said(tmp_path, text, words):
    file = tmp_path / "job.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(click.UsageError, match=words):
        specs.read_object(str(file), "--job-json")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("job.json", '{"rate": NaN}', "job.json holds NaN, which is not a number"),
        ("job.json", '{"a": 1, "a": 2}', "job.json has the key 'a' more than once"),
        ("job.yaml", "rate: .nan", "job.yaml holds NaN"),
        ("job.yaml", "seed: 99999999999999999999", "job.yaml holds the whole number 9999"),
        ("job.yaml", "a: 1\na: 2\n", "job.yaml, line 2 is neither JSON nor YAML: the key a"),
        ("job.yaml", "[1]", "must hold an object"),
    ],
)
def test_a_spec_is_read_as_strictly_as_a_body(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(click.UsageError, match=words):
        specs.read_object(str(tmp_path / name), "--job-json")


def test_an_option_that_is_not_a_number_of_json_is_refused():
    with pytest.raises(click.UsageError, match=r"-o checkpoints.steps=\.nan holds NaN"):
        specs.options(["checkpoints.steps=.nan"], None, None)


@pytest.mark.parametrize("backend", backends.BUILT_IN)
def test_references_are_written_where_the_backend_has_them(backend):
    spec = specs.with_references(backend, {}, {"model": "lab/base", "dataset": "lab/sums"})
    if backend == "rl":
        spec["training"] = {"type": "dpo"}
    specs.checked(backend, spec)
    assert json.dumps(spec).count("lab/") == 2
    with pytest.raises(click.UsageError, match="give one of the two"):
        specs.check_uploads(backend, spec, {"model": "folder"})


def test_a_backend_without_environments_takes_none():
    with pytest.raises(click.UsageError, match="the backend unsloth takes no environment"):
        specs.check_uploads("unsloth", {}, {"environment": "folder"})


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/data/My Sums.jsonl", "my-sums"),
        ("Qwen3-0.6B/", "qwen3-0.6b"),
        ("/data/train.jsonl.gz", "train"),
        ("/data/2024_run--x", "run-x"),
        ("/data/" + "m" * 80, "m" * 50),
    ],
)
def test_names_of_uploads_come_from_their_files(source, name):
    assert uploading.derived_name(source) == name


def test_a_name_that_cannot_be_made_is_said():
    with pytest.raises(click.UsageError, match="no name can be made of this"):
        uploading.derived_name("/data/123")


def test_hidden_files_are_not_sent(tmp_path):
    for path in ("a.txt", "deep/b.txt", ".git/config", ".hidden"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x")
    assert [relative for _, relative in uploading.pairs(tmp_path)] == ["a.txt", "deep/b.txt"]
    empty = tmp_path / ".git"
    assert uploading.local(str(tmp_path), "SOURCE") == tmp_path
    (tmp_path / "none").mkdir()
    with pytest.raises(click.UsageError, match="there are no files in it"):
        uploading.local(str(tmp_path / "none"), "SOURCE")
    assert empty.is_dir()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../x", "a//b"])
def test_nothing_is_written_outside_of_the_folder(path):
    with pytest.raises(click.UsageError, match="is not a path inside a fileset"):
        uploading._inside(path)


@pytest.mark.parametrize("name", [b"a\nb", b"a\x1b[31mb", b"back\\slash", b"x\xff", b"x" * 201])
def test_names_that_a_fileset_cannot_hold_are_said_before_anything_is_sent(tmp_path, name):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / os.fsdecode(name)).write_text("x")
    with pytest.raises(click.UsageError, match="a fileset cannot hold a file called") as caught:
        uploading.local(str(tmp_path), "SOURCE")
    assert caught.value.message.isascii()
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("backend", "spec", "words"),
    [
        ("rl", {"model": "a/b", "training": {"type": "dpoo"}}, "the type 'dpoo' is not one of 'dpo', 'grpo'"),
        ("rl", {"model": "a/b", "training": {}}, "training: 'type' is missing"),
        ("unsloth", {"model": "a/b"}, "model: an object is needed"),
    ],
)
def test_what_does_not_fit_is_said_in_plain_words(backend, spec, words):
    with pytest.raises(click.UsageError, match=words):
        specs.checked(backend, {"dataset": "a/c", **spec})


JSON = """{
  "model": "m",
  "dataset": 3,
  "training": {
    "type": "dpo",
    "lora": {"rnk": 1},
    "env_vars": {"A": 1}
  }
}"""
YAML = "model: m\ndataset: 3\ntraining:\n  type: dpo\n  lora: {rnk: 1}\n  env_vars:\n    A: 1\n"


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [("job.json", JSON, (3, 6, 7)), ("job.yaml", YAML, (2, 5, 7)), ("spec", YAML, (2, 5, 7))],
)
def test_every_field_that_is_wrong_is_named_with_its_line(tmp_path, name, text, lines):
    (tmp_path / name).write_text(text)
    spec = specs.read_object(str(tmp_path / name), "--job-json")
    with pytest.raises(click.UsageError) as caught:
        specs.checked("rl", spec.value, spec.text)
    fields = ("dataset", "training.lora.rnk", "training.env_vars.A")
    said = caught.value.message.splitlines()
    assert said[0] == "3 problems:"
    for line, field, number in zip(said[1:], fields, lines, strict=True):
        assert line.startswith(f"  {field} (line {number}): ")


def test_a_line_that_is_not_known_is_left_out():
    assert specs.line_of('{\n\t"model": 1}', ["model"]) == ""
    assert specs.line_of("", ["model"]) == ""
    assert specs.line_of("a:\n- b: 1\n- c: 2\n", ["a", "1", "c"]) == " (line 3)"
    assert specs.line_of("a: 1\n", ["b"]) == ""

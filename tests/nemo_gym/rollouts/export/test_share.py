"""A run as one file to send: what is in it, and what never is."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.nemo_gym.rollouts.export.outputs import ODD, RESULTS, THOUGHTS, exported
from tests.result_rows import result

from nemo_gym.cli.main import _status
from nemo_gym.rollouts.export.report_page import report_page
from nemo_gym.rollouts.export.share import REPORT, ROWS, write_report, write_share
from nemo_gym.rollouts.output.rows import encode_row


class Page(HTMLParser):
    """The elements and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.outcomes: list[str] = []
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag not in ("meta", "input"):
            self.open.append(tag)
        self.addresses += [values[name] for name in ("src", "href", "action") if name in values]
        if values.get("class") == "rollout":
            self.outcomes.append(values["data-outcome"])
        self.policy = values.get("content", "") if "http-equiv" in values else self.policy

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_is_whole_and_asks_for_nothing(tmp_path: Path) -> None:
    page = Page("".join(report_page([exported(tmp_path / "a")])))
    assert page.open == []
    assert all(address.startswith("#") for address in page.addresses)
    assert page.policy.startswith("default-src 'none'")
    assert page.outcomes == ["right", "wrong", "wrong", "right", "partly right", "failed"]
    for text in (ODD, THOUGHTS, "50.0%", "Labels: team=a"):
        assert text in page.texts


def test_the_line_of_a_rollout_says_what_was_asked_and_the_boxes_are_those_of_the_page(
    tmp_path: Path,
) -> None:
    text = "".join(report_page([exported(tmp_path / "a")]))
    boxes = re.findall(r"data-outcome='([^']*)'> ([^<]*)</label>", text)
    assert boxes == [
        ("wrong", "wrong (2)"), ("partly right", "partly right (1)"), ("right", "right (2)"),
        ("failed", "failed (1)"),
    ]  # fmt: skip
    heads = re.findall(r"<summary>(task .*?)</summary>", text)
    assert heads[0].startswith("task 0, repeat 0: <strong class='right'>right</strong> What is ")
    assert [re.findall(r"<strong class='(\w+)'>", head) for head in heads[4:]] == [["other"], ["failed"]]


def test_a_campaign_has_a_table_of_models_and_benchmarks(tmp_path: Path) -> None:
    outputs = [
        replace(exported(tmp_path / f"{model}.{name}", f"{model}.{name}"), campaign_model=model)
        for model in ("plain", "hot")
        for name in ("sums", "gpqa")
    ]
    page = "".join(report_page(outputs))
    table = page.partition("Models and benchmarks</h2>")[2].partition("</table>")[0]
    assert re.findall(r"<th scope='\w+'>([^<]*)</th>", table) == ["Model", "sums", "gpqa", "plain", "hot"]
    assert re.findall(r"<a href='#(b-\w+)'>50.0%</a>", table) == re.findall(r"<h2 id='(b-\w+)'>", page)
    assert "Models and benchmarks" not in "".join(report_page(outputs[:2]))


def test_characters_that_cannot_be_seen_or_turn_the_text_are_shown_as_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RESULTS, (0, 0), result("\u202ecod\x1b[31m", answer="0"))
    text = "".join(report_page([exported(tmp_path / "a")]))
    assert "⟨U+202E⟩cod⟨ESC⟩[31m" in text
    assert not {"\u202e", "\x1b"} & set(text)


def test_nothing_on_the_page_is_wider_than_a_phone_but_what_scrolls_by_itself(tmp_path: Path) -> None:
    text = "".join(report_page([exported(tmp_path / "a")]))
    assert text.count("<table>") == len(re.findall(r"<div class='wide' [^>]*>\n<table>", text)) > 1


def test_what_a_model_writes_is_text_and_never_part_of_the_page(tmp_path: Path) -> None:
    output = exported(tmp_path / "a", "<script>alert(1)</script>", model="<img src=x>")
    text = "".join(report_page([output]))
    assert text.count("<script>") == 1
    assert "<img" not in text
    assert Page(text).open == []


def test_a_share_has_the_report_the_rows_and_what_they_belong_to(tmp_path: Path) -> None:
    write_share([exported(tmp_path / "a"), exported(tmp_path / "b", "gpqa")], tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert archive.testzip() is None
        beside = [f"{name}/{file}.json" for name in ("sums", "gpqa") for file in ("manifest", "coverage")]
        assert archive.namelist() == [REPORT, ROWS, *beside]
        page = archive.read(REPORT).decode()
        rows = archive.read(ROWS).decode()
        manifest = json.loads(archive.read("gpqa/manifest.json"))
    assert "must stay unpublished" in page
    assert page.partition("<h2 id=")[2].count("<pre>What is") == 6
    assert "sums" in rows
    assert "gpqa" not in rows
    assert manifest["num_tasks"] == 3
    assert "links" not in manifest


def test_nothing_of_the_machine_is_in_it(tmp_path: Path) -> None:
    output = exported(tmp_path / "a")
    known = json.loads(output.paths.manifest.read_text())
    link = {"host": "login7.secret-site", "gym_path": "/home/ada/gym", "job_id": "77"}
    model = {"name": "m", "base_url": "http://10.0.0.7:8000/v1"}
    known["identity"]["scoring"]["judge"] = {"url": "https://10.0.0.7/v1", "file": "/home/ada/grade.py"}
    output.paths.manifest.write_text(json.dumps({**known, "links": [link], "model": model}))
    write_share([output], tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        text = "".join(archive.read(name).decode() for name in archive.namelist())
    assert not re.search("secret-site|/home/ada|10[.]0[.]0[.]7", text)


def test_the_command_writes_a_zip_or_the_report_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    assert _status(["job", "share", "out"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out-share.zip'}\n"
    assert _status(["job", "share", "out", "-o", "report.html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert _status(["job", "share", "out"]) == 1
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("http://gpu7.lab:8000/v1/chat/completions answered 500: no text", "(address) answered 500: no text"),
        ("Cannot connect to host 10.1.2.3:8000 ssl:default", "Cannot connect to host (address) ssl:default"),
        ("see wss://gpu7/x?key=1, or [fe80::1]:80.", "see (address), or (address)."),
        ("tools.py:12 raised ValueError: 3:4", "tools.py:12 raised ValueError: 3:4"),
    ],
)
def test_reasons_of_failures_are_sent_without_addresses(tmp_path: Path, message: str, kept: str) -> None:
    output = exported(tmp_path / "a")
    row = {"_ng_failure_class": "model_call_failed", "_ng_failure_message": message}
    output.paths.failures.write_bytes(encode_row(2, 1, row) + b"\n")
    write_share([output], tmp_path / "x.zip")
    write_report([output], tmp_path / "x.html")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        texts = [archive.read(REPORT).decode(), archive.read(ROWS).decode()]
    for text in (*texts, (tmp_path / "x.html").read_text()):
        assert kept in html.unescape(text)
        assert "gpu7" not in text
        assert "10.1" not in text


def test_no_answer_is_run_by_the_spreadsheet_of_who_gets_the_file(tmp_path: Path) -> None:
    output = exported(tmp_path / "a")
    write_share([replace(output, run='=HYPERLINK("x")')], tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        rows = list(csv.DictReader(io.StringIO(archive.read(ROWS).decode())))
    assert {row["run"] for row in rows} == {'\'=HYPERLINK("x")'}
    assert {row["reward"] for row in rows} == {"1.0", "0.0", "0.5", ""}

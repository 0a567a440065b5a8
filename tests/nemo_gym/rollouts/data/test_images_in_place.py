"""Images where a text or a conversation has a place for them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.nemo_gym.rollouts.data.test_requests import PNG, config, inputs, planned

from nemo_gym.errors import DataError

URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
A, B = "https://e.example/a.png", "https://e.example/b.png"


def shown(content: Any) -> list[str]:
    """A message's parts: texts, and addresses of images."""
    return (
        [content]
        if isinstance(content, str)
        else [part.get("text", part.get("image_url")) for part in content]
    )


def asked(folder: Path, prompt: dict[str, Any], row: dict[str, Any]) -> list[dict[str, Any]]:
    (folder / "red.png").write_bytes(PNG)
    (messages,) = inputs(config(folder, prompt, [{"expected_answer": "a", **row}]))
    return messages


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Is <image 2> like <image 1>?", ["Is ", B, " like ", A, "?"]),
        ("<image 1> and again <image 1>", [B, A, " and again ", A]),
        ("<image>\nWhat?", [B, A, "\nWhat?"]),
        ("<image> <image>", [A, " ", B]),
        ("What?", [A, B, "What?"]),
    ],
)
def test_images_stand_where_the_text_of_the_user_has_their_marks(
    tmp_path: Path, text: str, parts: list[str]
) -> None:
    prompt = {"user": "{q}", "images": ["image_1", "image_2", "image_3"], "images_in_text": True}
    row = {"q": text, "image_1": A, "image_2": B, "image_3": None}
    (message,) = asked(tmp_path, prompt, row)
    assert shown(message["content"]) == parts


def test_numbers_count_the_images_of_a_single_field(tmp_path: Path) -> None:
    prompt = {"user": "{q}", "images": ["images"], "images_in_text": True}
    (message,) = asked(tmp_path, prompt, {"q": "<image 2><image 1>", "images": [A, B]})
    assert shown(message["content"]) == [B, A]


def test_without_the_setting_marks_stay_as_they_are(tmp_path: Path) -> None:
    (message,) = asked(tmp_path, {"user": "{q}", "images": ["image"]}, {"q": "<image 1>?", "image": A})
    assert shown(message["content"]) == [A, "<image 1>?"]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "red.png"}},
        {"type": "image_url", "image_url": "red.png"},
        {"type": "input_image", "image_url": "red.png"},
        {"type": "image", "image": "red.png"},  # Qwen
        {"type": "image", "image": {"bytes": base64.b64encode(PNG).decode(), "path": None}},
        {"type": "image", "url": URL},
        {"type": "image", "path": "red.png", "text": None},
        {"image": "red.png"},
        {  # Anthropic
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
        },
    ],
)
def test_images_in_a_conversation_are_sent_in_the_words_of_the_api(
    tmp_path: Path, part: dict[str, Any]
) -> None:
    png = {**part}
    if isinstance(part.get("image"), dict):  # base64 alone has to be long enough to be no name
        png["image"] = {"bytes": base64.b64encode(PNG + b"-" * 60).decode(), "path": None}
    talk = [{"role": "user", "content": [png, {"type": "text", "text": "Colour?"}]}]
    (message,) = asked(tmp_path, {"conversation": "m"}, {"m": talk})
    image, text = message["content"]
    assert image["type"] == "input_image"
    assert image["image_url"].startswith("data:image/png;base64,")
    assert text == {"type": "text", "text": "Colour?"}


def test_an_image_that_has_an_address_stays_as_it_is(tmp_path: Path) -> None:
    part = {"type": "image_url", "image_url": {"url": A, "detail": "low"}}
    (message,) = asked(tmp_path, {"conversation": "m"}, {"m": [{"role": "user", "content": [part]}]})
    assert message["content"] == [part]
    part = {"type": "image_url", "image_url": {"url": "red.png", "detail": "low"}}
    (message,) = asked(tmp_path, {"conversation": "m"}, {"m": [{"role": "user", "content": [part]}]})
    assert message["content"] == [{"type": "input_image", "image_url": URL, "detail": "low"}]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ([{"type": "image"}, {"type": "text", "text": "Which?"}, {"type": "image"}], [A, "Which?", B]),
        (
            [
                {"type": "image", "index": 1, "text": None},
                {"type": "text", "text": "Which?", "index": None},
                {"type": "image", "index": 0, "text": None},
            ],
            [B, "Which?", A],
        ),
        ("<image>\nor <image>?", [A, "\nor ", B, "?"]),
        ([{"type": "text", "text": "one <image>"}], [B, "one ", A]),
        ("Which?", [A, B, "Which?"]),
    ],
)
def test_images_of_a_column_go_where_the_conversation_has_a_place(
    tmp_path: Path, content: Any, parts: list[str]
) -> None:
    talk = [{"role": "user", "content": content}]
    row = {"m": talk, "images": [A, {"url": B}]}
    (message,) = asked(tmp_path, {"conversation": "m", "images": ["images"]}, row)
    assert shown(message["content"]) == parts


@pytest.mark.parametrize(
    ("prompt", "row", "problem"),
    [
        (
            {"conversation": "m"},
            {"m": [{"role": "user", "content": [{"type": "image"}]}]},
            r"message 1 of m cannot be asked: it has a place for an image and no image.*prompt\.images",
        ),
        (
            {"conversation": "m", "images": ["images"]},
            {"m": [{"role": "user", "content": "<image><image><image>"}], "images": [A, B]},
            r"more places for images than the row has images \(2\)",
        ),
        (
            {"user": "{q}", "images": ["image"], "images_in_text": True},
            {"q": "<image 2>?", "image": A},
            "a place for image 2, and the row has no such image",
        ),
        (
            {"conversation": "m"},
            {"m": [{"role": "user", "content": [{"type": "image", "image": "gone.png"}]}]},
            r"gone\.png.* cannot be read: no such file",
        ),
    ],
)
def test_places_without_an_image_are_refused_by_line(
    tmp_path: Path, prompt: dict[str, Any], row: dict[str, Any], problem: str
) -> None:
    with pytest.raises(DataError, match=rf"rows.jsonl:1: .*{problem}"):
        planned(config(tmp_path, prompt, [{"expected_answer": "a", **row}]))

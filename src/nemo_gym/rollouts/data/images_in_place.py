"""Images where a text or a conversation has a place for them, in the ways that data sets write these places.

A text has ``<image>``, one after the other, or ``<image 1>`` with a number (LLaVA, MMMU). A conversation has
parts that hold an image, or that only say that one belongs there (``{"type": "image"}``, perhaps with its
``index``), while the images are in a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import DataError
from nemo_gym.rollouts.data.conversations import Message, speaker_of
from nemo_gym.rollouts.data.image_data import image_parts, is_address

Part = dict[str, Any]

MARK: Final = re.compile(r"<image[ _]?(\d+)?>")
"""A place in a text; with the number of its image, from 1, or without."""
_TEXTS: Final = frozenset({"text", "input_text"})
_HOLDS: Final = ("image", "url", "path", "data", "base64", "bytes")
"""Keys of a part of the type ``image`` that hold it."""


class RowImages:
    """The images of one row; each place takes one, and what no place takes is left."""

    def __init__(self, row: Mapping[str, Any], names: Sequence[str], folder: Path) -> None:
        """``names`` are the fields that hold images. `DataError` with a phrase for what is none."""
        self._fields = [
            [] if row.get(name) in (None, "", []) else image_parts(row[name], name, folder) for name in names
        ]
        self._all = [part for field in self._fields for part in field]
        self._placed: set[int] = set()
        self._next = 0

    def numbered(self, number: int) -> list[Part]:
        """The image of a number, from 1: of several fields the one of that place, else of the list."""
        groups = [[part] for part in self._all] if len(self._fields) == 1 else self._fields
        found = groups[number - 1] if 0 < number <= len(groups) else []
        if not found:
            raise DataError(f"it has a place for image {number}, and the row has no such image")
        self._placed |= {id(part) for part in found}
        return list(found)

    def next_one(self) -> Part:
        """The image behind the one that was taken last."""
        if self._next >= len(self._all):
            raise DataError(f"it has more places for images than the row has images ({len(self._all)})")
        part = self._all[self._next]
        self._next += 1
        self._placed.add(id(part))
        return part

    def left(self) -> list[Part]:
        """The images that have no place."""
        return [part for part in self._all if id(part) not in self._placed]


def text_with_images(text: str, images: RowImages) -> list[Part]:
    """The parts of a message: pieces of the text, and images at its marks."""
    parts: list[Part] = []
    at = 0
    for mark in MARK.finditer(text):
        if mark.start() > at:
            parts.append({"type": "input_text", "text": text[at : mark.start()]})
        parts += images.numbered(int(mark[1])) if mark[1] else [images.next_one()]
        at = mark.end()
    if text[at:] or not parts:
        parts.append({"type": "input_text", "text": text[at:]})
    return parts


def conversation_with_images(
    messages: list[Message], name: str, images: RowImages | None, folder: Path
) -> list[Message]:
    """The messages with their images as a request carries them; ``images`` are those of other fields.

    What has no place comes before the first text of the user. `DataError` with a phrase.
    """
    found = []
    for number, message in enumerate(messages, 1):
        try:
            found.append(_placed(message, f"message {number} of {name}", images, folder))
        except DataError as error:
            raise DataError(f"message {number} of {name} cannot be asked: {error}") from None
    left = [] if images is None else images.left()
    first = next((at for at, message in enumerate(found) if speaker_of(message) == "user"), None)
    if left and first is not None:
        content = found[first].get("content")
        own = content if isinstance(content, list) else [{"type": "input_text", "text": content or ""}]
        found[first] = {**found[first], "content": [*left, *own]}
    return found


def image_values(messages: Any) -> Iterator[Any]:
    """What the parts of a conversation hold as images."""
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, Mapping) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and (value := _image_of(part)) is not None:
                yield value


def _placed(message: Message, name: str, images: RowImages | None, folder: Path) -> Message:
    content = message.get("content")
    if isinstance(content, str) and images is not None and MARK.search(content):
        return {**message, "content": text_with_images(content, images)}
    if not isinstance(content, list):
        return message
    return {**message, "content": [new for part in content for new in _parts_of(part, name, images, folder)]}


def _parts_of(part: Any, name: str, images: RowImages | None, folder: Path) -> list[Any]:
    if not isinstance(part, Mapping):
        return [part]
    part = {key: value for key, value in part.items() if value is not None}
    value = _image_of(part)
    if value is not None:
        return [part if _is_ready(part) else {**image_parts(value, name, folder)[0], **_detail(part)}]
    if part.get("type") != "image":
        return _of_text(part, images)
    if images is None:
        raise DataError(
            "it has a place for an image and no image; name the field with the images in prompt.images"
        )
    index = part.get("index")
    return images.numbered(index + 1) if isinstance(index, int) else [images.next_one()]


def _of_text(part: Part, images: RowImages | None) -> list[Part]:
    """A part of text with its images; a part of another kind as it is."""
    text = part.get("text")
    if not isinstance(text, str) or part.get("type", "text") not in _TEXTS:
        return [part]
    if images is not None and MARK.search(text):
        return text_with_images(text, images)
    if part.keys() == {"text"}:
        return [{"type": "input_text", "text": text}]
    return [{key: value for key, value in part.items() if key != "index"}]


def _is_ready(part: Mapping[str, Any]) -> bool:
    """Whether a part is one of the chat or of the Responses API already, with an address."""
    value = part.get("image_url")
    value = value.get("url") if isinstance(value, Mapping) else value
    return part.get("type") in ("image_url", "input_image") and isinstance(value, str) and is_address(value)


def _image_of(part: Mapping[str, Any]) -> Any:
    """The image that a part holds, as a field of a row would; ``None`` for others, and for a mere place."""
    kind = part.get("type")
    if kind in ("image_url", "input_image"):
        return part.get("image_url")
    if kind not in (None, "image"):
        return None
    source = part.get("source")
    if isinstance(source, Mapping):  # as Anthropic's API has it
        if source.get("type") == "base64":
            return f"data:{source.get('media_type')};base64,{source.get('data')}"
        return source.get("url")
    keys = _HOLDS if kind else ("image",)
    return next((part[key] for key in keys if part.get(key) is not None), None)


def _detail(part: Mapping[str, Any]) -> dict[str, Any]:
    inner = part.get("image_url")
    detail = part.get("detail", inner.get("detail") if isinstance(inner, Mapping) else None)
    return {} if detail is None else {"detail": detail}

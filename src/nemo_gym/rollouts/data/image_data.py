"""Images of rows as a request carries them: an address, or the image itself as a data URL."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import DataError
from nemo_runs.sizes import size_in_words

MOST_BYTES: Final = 20 << 20
"""Of one image; servers refuse larger ones."""
_KINDS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
)
_LEAST_ENCODED: Final = 64
"""Characters of an encoded image; a shorter text is the name of a file."""
_OF_A_FILE: Final = "file://"
_ADDRESSES: Final = ("https://", "http://", "data:image/")


def data_url(content: bytes) -> str | None:
    """The image as a ``data:`` URL; ``None`` where the bytes are not an image of a known kind."""
    kind = next((kind for mark, kind in _KINDS if content.startswith(mark)), None)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "image/webp"
    return None if kind is None else f"data:{kind};base64,{base64.b64encode(content).decode()}"


def is_address(text: str) -> bool:
    """Whether a text is an image's address or holds the image itself."""
    return text.startswith(_ADDRESSES)


def image_parts(value: Any, name: str, folder: Path) -> list[dict[str, str]]:
    """The parts of a message for a field with one image or a list of them.

    An image is an address, a ``data:`` URL, or the name of a file, relative to ``folder``. `DataError` with a
    phrase that names the field.
    """
    images = value if isinstance(value, list) else [value]
    return [{"type": "input_image", "image_url": _address(image, name, folder)} for image in images]


def file_names(value: Any) -> Iterator[str]:
    """The names of files among the images of a field."""
    for image in value if isinstance(value, list) else [value]:
        text = _text_of(image)
        if text and not is_address(text) and _encoded(text) is None:
            yield text


def _text_of(image: Any) -> str | None:
    """What names or holds the image: a text, or one in an object as the chat API and the hub have them."""
    if isinstance(image, dict):
        image = next(
            (image[key] for key in ("url", "bytes", "path") if isinstance(image.get(key), str)), None
        )
    return image.removeprefix(_OF_A_FILE) if isinstance(image, str) else None


def _encoded(text: str) -> str | None:
    """An image that is written as base64 alone, as tables of MMBench have it."""
    if len(text) < _LEAST_ENCODED:
        return None
    try:
        return data_url(base64.b64decode(text, validate=True))
    except ValueError:
        return None


def _address(image: Any, name: str, folder: Path) -> str:
    text = _text_of(image)
    if not text:
        raise DataError(f"the field {name} must hold an image: an address, a data URL, or a file's name")
    if is_address(text):
        return text
    if (encoded := _encoded(text)) is not None:
        return encoded
    path = folder / Path(text).expanduser()
    try:
        size = path.stat().st_size
        if not path.is_file() or size > MOST_BYTES:
            limit = size_in_words(MOST_BYTES, binary=True)
            raise DataError(f"the image {path} of the field {name} is not a file of at most {limit}")
        found = data_url(path.read_bytes())
    except OSError as error:
        reason = (error.strerror or "error").lower()
        raise DataError(f"the image {path} of the field {name} cannot be read: {reason}") from None
    if found is None:
        raise DataError(f"the file {path} of the field {name} is not an image (PNG, JPEG, GIF, WebP or BMP)")
    return found

"""Every reader of YAML here takes a plain scalar for the same thing."""

import pytest
import yaml

from nemo_gym.spelling import plain
from nemo_gym.yaml_files import read_flow
from nemo_helix_plugin import yaml_text
from nemo_helix_server import settings

pytestmark = pytest.mark.services

SCALARS = {
    "405": 405,
    "1e3": 1000.0,
    "1e-4": 0.0001,
    "1.10": 1.1,
    ".5": 0.5,
    "5.": 5.0,
    "-.inf": float("-inf"),
    "0x1F": 31,
    "010": "010",
    "007": "007",
    "1_000": "1_000",
    "0b1": "0b1",
    "0o7": "0o7",
    "yes": "yes",
    "NO": "NO",
    "on": "on",
    "off": "off",
    "y": "y",
    "true": True,
    "False": False,
    "null": None,
    "~": None,
    "2026-01-02": "2026-01-02",
    "2026-01-02T03:04:05Z": "2026-01-02T03:04:05Z",
    "=": "=",
    "1.2.3": "1.2.3",
    "1e": "1e",
    "text": "text",
}
READERS = {
    "gym": lambda text: plain(read_flow(text)),
    "nemo": yaml_text.load,
    "settings": lambda text: settings._value_of("X", text),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", SCALARS)
def test_a_plain_scalar_is_the_same_for_every_reader(reader, text):
    found = READERS[reader](text)
    assert found == SCALARS[text]
    assert type(found) is type(SCALARS[text])


@pytest.mark.parametrize("text", [*SCALARS, "08:30", "a: b", "- a", "\u2028", "multi\nline", " padded "])
def test_what_nemo_writes_is_read_as_the_same_text_by_old_and_new_readers(text):
    written = yaml_text.dump({"key": text})
    assert yaml_text.load(written) == {"key": text}
    assert yaml.safe_load(written) == {"key": text}

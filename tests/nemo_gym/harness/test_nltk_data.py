"""What definitions download of NLTK's data is noted, however they ask for it, and not downloaded."""

from __future__ import annotations

import pytest
from tests.real_programs import needed_module

from nemo_gym.harness.worker import nltk_data


def test_each_way_to_ask_for_data_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    nltk = needed_module("nltk")
    before = nltk.download, nltk.data.find
    monkeypatch.setattr(nltk_data, "_wanted", {})
    with nltk_data.noted():
        nltk.download("none_1", quiet=True)
        nltk.download(["none_2", "none_3"])
        nltk.download(info_or_id="none_4")
        with pytest.raises(LookupError):
            nltk.data.find("corpora/none_5.zip/none_5/")
    assert nltk_data.missing() == [f"none_{number}" for number in range(1, 6)]
    assert (nltk.download, nltk.data.find) == before

"""Where a user's files are: without a home, with a relative one, in a container without an account."""

from pathlib import Path

import pytest

from nemo_runs import homes


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache"),
    ],
)
def test_a_relative_folder_counts_as_unset(environ, expected):
    assert homes.base("XDG_CACHE_HOME", ".cache", environ) == Path(expected)


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_a_home_the_account_says_it(environ):
    assert homes.home(environ).is_absolute()


def test_a_user_without_an_account_has_the_root(monkeypatch):
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    assert homes.home({}) == Path("/")

"""Which categories are here; those that are not are refused by name with the reason."""

import pytest

from nemo_gym.bfcl import categories
from nemo_gym.errors import ConfigError


def test_categories_come_in_their_own_order_and_once() -> None:
    assert categories.check(["multi_turn_base", "multiple", "multiple"]) == ["multiple", "multi_turn_base"]


@pytest.mark.parametrize("name", categories.EXCLUDED)
def test_what_is_left_out_says_why(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is left out: it"):
        categories.check([name])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["simple_pyton"], "no category simple_pyton .did you mean"),
        ([], "names no category"),
        ("multiple", "must be a list"),
        (3, "must be a list"),
    ],
)
def test_what_is_no_category_is_refused(asked: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        categories.check(asked)

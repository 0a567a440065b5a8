"""Secrets: a value and its name belong together, at any number of requests and any end of the service."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.helix_workplace import Workplace

from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.storage import secret_store

ANN = Caller(name="ann")


@pytest.fixture
def place(tmp_path):
    place = Workplace(tmp_path / "data")
    yield place
    place.close()


@pytest.fixture
def keeper(place):
    return secret_store.SecretStore(place.store, place.folder, place.clock)


def value(place):
    return secret_store.value_path(place.folder, "default", "hub").read_text()


def test_of_many_who_make_one_at_once_one_has_made_it(place, keeper):
    def make(number):
        try:
            keeper.create(ANN, "default", "hub", f"value-{number}", f"value-{number}")
        except StateConflictError:
            return None
        return f"value-{number}"

    with ThreadPoolExecutor(12) as pool:
        made = [given for given in pool.map(make, range(12)) if given]
    assert made == [value(place)]
    assert keeper.get("default", "hub")["description"] == made[0]


def test_a_deleted_one_has_no_value_even_where_deleting_was_cut_off(place, keeper, monkeypatch):
    keeper.create(ANN, "default", "hub", "hunter2", None)

    def cut_off(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(place.store), "write", cut_off)
    with pytest.raises(KeyboardInterrupt):
        keeper.delete("default", "hub")
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError):
        value(place)
    keeper.delete("default", "hub")
    assert keeper.all("default") == []

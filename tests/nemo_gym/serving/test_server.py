"""How the library is started, with a stand-in for the library."""

import sys
import types

import pytest

from nemo_gym import errors
from nemo_gym.serving import server


@pytest.fixture
def options(tmp_path):
    return server.ServeOptions(
        model=tmp_path / "m.gguf",
        model_name="tiny",
        host="127.0.0.1",
        port=0,
        context=512,
        parallel=3,
        threads=2,
    )


class _Parameters(types.SimpleNamespace):
    def __init__(self):
        empty = types.SimpleNamespace
        super().__init__(model=empty(), cpuparams=empty(), cpuparams_batch=empty())


def test_the_context_asked_for_is_what_every_parallel_request_gets(options):
    library = types.SimpleNamespace(CommonParams=_Parameters)
    parameters = server._parameters(library, options)
    assert parameters.n_ctx == 3 * 512
    assert parameters.n_parallel == 3


def test_the_models_own_chat_template_is_used_and_prompts_of_others_are_not_shown(options):
    parameters = server._parameters(types.SimpleNamespace(CommonParams=_Parameters), options)
    assert parameters.use_jinja is True
    assert parameters.endpoint_slots is False
    assert parameters.model_alias == {"tiny"}
    assert parameters.api_keys == []


def test_every_parameter_is_one_that_the_library_has(options):
    library = pytest.importorskip("xllamacpp")
    parameters = server._parameters(library, options)
    assert parameters.n_ctx == 3 * 512


def test_a_missing_library_is_one_sentence_with_the_remedy(options, monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(errors.ConfigError, match=r"xllamacpp.*pip install 'nemo-baton\[serve\]'"):
        server._start(options)


def test_a_model_that_cannot_be_loaded_is_one_sentence(options, monkeypatch):
    def refuse(_parameters):
        raise RuntimeError("Failed to init server")

    monkeypatch.setitem(
        sys.modules, "xllamacpp", types.SimpleNamespace(CommonParams=_Parameters, Server=refuse)
    )
    with pytest.raises(errors.ConfigError, match=r"could not serve .*m\.gguf on 127\.0\.0\.1:0"):
        server._start(options)

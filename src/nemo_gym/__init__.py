"""`gym`: evaluations of language models that outlive one allocation.

From Python there are `nemo_gym.run`, `reverify`, `submit`, `results` and `compare`, described in
``docs/reference/python-evaluations.md``. Each is loaded when it is first asked for.
"""

from __future__ import annotations

__all__ = [
    "BenchmarkProgress",
    "EvalProgress",
    "EvalResult",
    "EvalResults",
    "EvalSubmission",
    "RunComparisons",
    "__version__",
    "compare",
    "errors",
    "results",
    "reverify",
    "run",
    "submit",
]

__version__ = "0.1.0"

_PLACES = {
    "BenchmarkProgress": "nemo_gym.api.waiting:BenchmarkProgress",
    "EvalProgress": "nemo_gym.api.waiting:EvalProgress",
    "EvalResult": "nemo_gym.api.eval_results:EvalResult",
    "EvalResults": "nemo_gym.api.eval_results:EvalResults",
    "EvalSubmission": "nemo_gym.api.submitting:EvalSubmission",
    "RunComparisons": "nemo_gym.api.comparing:RunComparisons",
    "compare": "nemo_gym.api.comparing:compare",
    "errors": "nemo_gym.errors",
    "results": "nemo_gym.api.eval_results:results",
    "reverify": "nemo_gym.api.running:reverify",
    "run": "nemo_gym.api.running:run",
    "submit": "nemo_gym.api.submitting:submit",
}


def __getattr__(name: str) -> object:
    """Load what is offered here when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _PLACES[name].partition(":")
    loaded = import_module(module)
    found: object = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Verifiers by type: the built-in ones, and whatever the entry-point group ``nemo_gym.verifiers`` offers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from nemo_gym import plugins
from nemo_gym.errors import ConfigError
from nemo_gym.types import ANSWER_ENDS, MetricInfo, Policy, Verifier
from nemo_gym.verifiers.guarded import GuardedVerifier

VERIFIERS = plugins.PluginKind(
    noun="verifier",
    group="nemo_gym.verifiers",
    built_in={
        "bfcl": "nemo_gym.bfcl.verifier:BfclVerifier",
        "command": "nemo_gym.command_benchmark.verifier:CommandVerifier",
        "lm_eval": "nemo_gym.harness.verifier:HarnessVerifier",
        "match": "nemo_gym.verifiers.match:MatchVerifier",
        "multiple_choice": "nemo_gym.verifiers.multiple_choice:MultipleChoiceVerifier",
        "code": "nemo_gym.verifiers.code.verifier:CodeVerifier",
        "f1": "nemo_gym.verifiers.f1:F1Verifier",
        "ifeval": "nemo_gym.verifiers.ifeval:IfevalVerifier",
        "json_schema": "nemo_gym.verifiers.json_schema:JsonSchemaVerifier",
        "math": "nemo_gym.verifiers.math:MathVerifier",
        "rouge": "nemo_gym.verifiers.rouge:RougeVerifier",
        "function": "nemo_gym.verifiers.callables.python_function:FunctionVerifier",
        "python": "nemo_gym.verifiers.python_file:PythonVerifier",
        "judge": "nemo_gym.rollouts.judges.rubric:RubricVerifier",
        "pairwise": "nemo_gym.rollouts.judges.pairwise:PairwiseVerifier",
        "several": "nemo_gym.verifiers.several:SeveralVerifier",
    },
)


def load_verifier(
    spec: Mapping[str, Any], models: Mapping[str, Policy] | None = None, *, where: str = "benchmark.verifier"
) -> GuardedVerifier:
    """Build the verifier that ``spec`` describes: its ``type`` and its own options.

    ``models`` are the judge models by name; most verifiers need none. Raises `nemo_gym.errors.ConfigError`,
    naming the dotted path below ``where``.
    """
    loaded = plugins.load_class(VERIFIERS, spec, where=where)
    options = plugins.check_options(loaded.cls.Options, spec, where=where)
    verifier = cast("Verifier", plugins.construct(loaded, Verifier, (options, models or {}), where=where))
    return guarded(verifier, loaded.title, where=where)


def guarded(verifier: Verifier, title: str, *, where: str = "benchmark.verifier") -> GuardedVerifier:
    """A verifier that has been built, with what it declares checked. Raises as `load_verifier` does."""
    declared = declared_metrics(verifier)
    if not isinstance(declared, Mapping) or not all(map(_is_declared, declared.items())):
        raise ConfigError(f"{where}: metrics of {title} must map names to nemo_gym.types.MetricInfo.")
    ends: object = getattr(verifier, "graded_ends", ())
    if not isinstance(ends, Collection) or not set(ends) <= set(ANSWER_ENDS):
        known = ", ".join(ANSWER_ENDS)
        raise ConfigError(f"{where}: graded_ends of {title} must be a set of: {known}.")
    return GuardedVerifier(verifier, title)


def function_verifier(
    function: Callable[..., Any],
    spec: Mapping[str, Any],
    models: Mapping[str, Policy],
    *,
    where: str = "benchmark.verifier",
) -> GuardedVerifier:
    """The verifier that calls ``function``, which ``spec`` describes. Raises as `load_verifier` does."""
    from nemo_gym.verifiers.callables.python_function import FunctionOptions, FunctionVerifier

    options = plugins.check_options(FunctionOptions, spec, where=where)
    try:
        verifier = FunctionVerifier(options, models, function)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}.") from None
    return guarded(verifier, f"the function '{verifier.options.name}'", where=where)


def verifier_types() -> list[str]:
    """All verifier types that can be named here, in a config or on the command line."""
    return [name for name in plugins.known_types(VERIFIERS) if name != "function"]


def declared_metrics(verifier: object) -> Mapping[str, MetricInfo]:
    """What the verifier declares about its metrics; empty where it declares nothing."""
    return cast("Mapping[str, MetricInfo]", getattr(verifier, "metrics", {}))


def graded_with(verifier: object) -> Mapping[str, str]:
    """Digests, by name, of what grades depend on and the options do not hold, such as the answers in a file.

    A verifier has them in ``graded_with``; they are kept in the manifest, and other ones are another grading.
    """
    found: object = getattr(verifier, "graded_with", None)
    return cast("Mapping[str, str]", found) if isinstance(found, Mapping) else {}


def _is_declared(item: tuple[object, object]) -> bool:
    name, info = item
    return isinstance(name, str) and bool(name) and isinstance(info, MetricInfo)


def start_verifier(verifier: Verifier) -> None:
    """Let a verifier start what it will need, if it has `start`."""
    start = getattr(verifier, "start", None)
    if callable(start):
        start()


def close_verifier(verifier: Verifier) -> None:
    """Let a verifier end what it started, if it has `close`."""
    close = getattr(verifier, "close", None)
    if callable(close):
        close()


def grades_at_once(verifier: Verifier) -> bool:
    """Whether a grade takes no time worth speaking of, so that an answer is stored together with it.

    Only for one that says ``grades_at_once = True``: it waits for nothing, and runs no code or pattern of
    somebody else. All others are asked once the answer is stored.
    """
    return bool(getattr(verifier, "grades_at_once", False))


def grades_stored_answers(verifier: Verifier) -> bool:
    """Whether the verifier needs only task and stored episode, so that answers can be graded again.

    True unless the class says ``grades_stored_answers = False``, as one that asks a live environment must.
    """
    return bool(getattr(verifier, "grades_stored_answers", True))

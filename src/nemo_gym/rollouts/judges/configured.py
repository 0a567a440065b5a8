"""The judge models that a configuration names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.judges.models import JudgeModel
from nemo_gym.rollouts.policy.api_keys import resolved_key
from nemo_gym.rollouts.policy.backoff import RequestLimits
from nemo_gym.rollouts.policy.client import Endpoint
from nemo_gym.rollouts.run_config.judge_schema import JudgeModelConfig, TokenPrices
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.types import LogLikelihood, Policy, Row
from nemo_runs.secret_refs import SecretText
from nemo_runs.suggestions import suggestion

SERVICES_VARIABLE = "NEMO_GYM_SERVICES"
"""Of a job: a line for each server of its services, with name, address and model's name."""
SERVICE_KEY_VARIABLE = "NEMO_GYM_SERVICE_API_KEY"
"""Of a job: the key of its services."""


def judges_of(config: RunConfig, environ: Mapping[str, str] | None) -> dict[str, JudgeModel]:
    """The judge models by name, not connected yet.

    ``environ`` holds the keys, and the addresses of services; without it (``None``) neither is looked up, so
    that the models can only be named. Raises `ConfigError` with the dotted path.
    """
    return {
        name: JudgeModel(
            name,
            _endpoint(judge, environ, where=f"judge_models.{name}"),
            limits=RequestLimits(judge.request_timeout_seconds, judge.max_request_attempts),
            params=judge.params.given(),
            parallel=judge.num_in_parallel,
        )
        for name, judge in config.judge_models.items()
    }


class UnnamedJudges(Mapping[str, Policy]):
    """Judges for a look at what would be asked of the policy model: any name is one, and none answers."""

    def __getitem__(self, name: str) -> Policy:
        return _Unasked()

    def __iter__(self) -> Iterator[str]:
        return iter(("judge",))

    def __len__(self) -> int:
        return 1


class _Unasked:
    async def respond(self, params: Mapping[str, Any]) -> Row:  # noqa: ARG002 - the protocol
        raise AssertionError("nothing is graded in a look at the requests")

    async def score(
        self,
        context: Sequence[int],  # noqa: ARG002 - the same
        continuation: Sequence[int],  # noqa: ARG002
    ) -> LogLikelihood:
        raise AssertionError("nothing is graded in a look at the requests")


def prices_of(config: RunConfig) -> dict[str, TokenPrices]:
    """The prices of the judge models that have any."""
    found = {name: judge.price_per_million_tokens for name, judge in config.judge_models.items()}
    return {name: price for name, price in found.items() if price is not None}


def _endpoint(judge: JudgeModelConfig, environ: Mapping[str, str] | None, *, where: str) -> Endpoint:
    if judge.service is None:
        key = None if environ is None else resolved_key(judge.api_key, environ, where=f"{where}.api_key")
        assert judge.base_url is not None
        assert judge.model is not None
        return Endpoint(judge.base_url, judge.model, judge.api, key, judge.system_role)
    if environ is None:
        return Endpoint("http://localhost/v1", judge.model or "", judge.api, None, judge.system_role)
    services = _services(environ)
    if judge.service not in services:
        hint = suggestion(judge.service, services) or f"; there is {', '.join(services) or 'none'}"
        raise ConfigError(
            f"{where}.service: '{judge.service}' is not a service of this job{hint}; outside of a job give "
            "base_url and model"
        )
    (address, model), *replicas = services[judge.service]
    key = SecretText(environ[SERVICE_KEY_VARIABLE]) if environ.get(SERVICE_KEY_VARIABLE) else None
    return Endpoint(
        address,
        judge.model or model,
        judge.api,
        key,
        judge.system_role,
        replica_urls=tuple(url for url, _ in replicas),
    )


def _services(environ: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Address and model of each service of the job, by name; several of one that has replicas."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in environ.get(SERVICES_VARIABLE, "").splitlines():
        parts = line.split(maxsplit=2)
        if len(parts) == 3:
            found.setdefault(parts[0], []).append((parts[1], parts[2]))
    return found

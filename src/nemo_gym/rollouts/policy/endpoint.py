"""Before the first request: does the server answer, with this key, and does it serve this very model?"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yarl

from nemo_gym.errors import ConfigError, GymError
from nemo_gym.rollouts.policy import errors, http_body
from nemo_gym.rollouts.policy.client import Endpoint
from nemo_runs.suggestions import suggestion

PROBE_TIMEOUT = 5.0
"""Seconds for one probe; a server that accepts and stays silent must not use up the whole wait."""
PROBE_EVERY = 0.5
REPORT_AFTER = 2.0
"""Seconds of waiting before it is said."""

_WEIGHTS = ("*.safetensors", "*.gguf", "*.bin")
_META = ("n_ctx_train", "n_embd", "n_params", "n_vocab", "size", "vocab_type")


class EndpointError(GymError):
    """The model server cannot be used as it is."""

    rejected: bool = False
    """Whether it refused the credentials."""


class RejectedError(EndpointError):
    """The model server refused the credentials."""

    rejected = True


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model answered, in what stays the same when the same server is started again elsewhere."""

    name: str
    server_version: str | None = None
    fingerprint: str | None = None
    """Of what distinguishes weights: their config, index and sizes, or the sizes that the server reports."""

    def to_json(self) -> dict[str, str | None]:
        """As the manifest records it."""
        return {"name": self.name, "server_version": self.server_version, "fingerprint": self.fingerprint}


async def check_servers(
    session: aiohttp.ClientSession,
    endpoint: Endpoint,
    *,
    wait: float,
    check_name: bool,
    pause: Callable[[float], Awaitable[bool]],
    monotonic: Callable[[], float],
    report: Callable[[str], None],
) -> ModelIdentity:
    """`check_endpoint` of each server of the model. Some may be missing, but not all of them.

    Raises `EndpointError` as that does, and where two servers say that they serve different models.
    """
    servers = endpoint.each
    asked = (
        check_endpoint(
            session, one, wait=wait, check_name=check_name, pause=pause, monotonic=monotonic, report=report
        )
        for one in servers
    )
    answers = await asyncio.gather(*asked, return_exceptions=True)
    missing = [answer for answer in answers if isinstance(answer, EndpointError) and not answer.rejected]
    for answer in answers:
        if isinstance(answer, BaseException) and (answer not in missing or len(missing) == len(servers)):
            raise answer
    for problem in missing:
        report(f"{str(problem).partition(': ')[2].rstrip('.')}. The run begins with the other servers.")
    found = [
        (one, answer)
        for one, answer in zip(servers, answers, strict=True)
        if isinstance(answer, ModelIdentity)
    ]
    (first, model), *others = found
    for one, other in others:
        if other != model:
            raise EndpointError(
                f"policy_replica_urls: {one.shown} serves another model than {first.shown}, or another "
                f"version of the server does ({other.to_json()}, not {model.to_json()}); all servers of one "
                "policy model must be alike."
            )
    return model


async def check_endpoint(
    session: aiohttp.ClientSession,
    endpoint: Endpoint,
    *,
    wait: float,
    check_name: bool,
    pause: Callable[[float], Awaitable[bool]],
    monotonic: Callable[[], float],
    report: Callable[[str], None],
) -> ModelIdentity:
    """Wait up to ``wait`` seconds for the server, then check key and model name. Raises `EndpointError`.

    ``check_name=False`` takes any name (a router that serves models it does not list).
    """
    status, listing = await _wait_for_listing(session, endpoint, wait, pause, monotonic, report)
    if status in {401, 403}:
        source = "is not the right one" if endpoint.api_key else "is missing"
        raise RejectedError(
            f"policy_api_key: {endpoint.shown} answered {status}, the API key {source}; "
            "pass --model-api-key host:VAR."
        )
    if status == 404 and await _answers_below_v1(session, endpoint):
        raise EndpointError(
            f"policy_base_url: {endpoint.shown} has no /models, "
            f"{endpoint.shown.rstrip('/')}/v1 has: use that."
        )
    entries = _entries(listing)
    if not entries:
        report(
            f"{endpoint.shown} does not list its models ({status}), so the model's name could not be checked."
        )
        return ModelIdentity(endpoint.model)
    entry = next((entry for entry in entries if entry["id"] == endpoint.model), None)
    if entry is None and check_name:
        raise ConfigError(_wrong_name(endpoint, [entry["id"] for entry in entries]))
    version = await _version(session, endpoint)
    return ModelIdentity(endpoint.model, version, fingerprint(entry) if entry else None)


async def _wait_for_listing(
    session: aiohttp.ClientSession,
    endpoint: Endpoint,
    wait: float,
    pause: Callable[[float], Awaitable[bool]],
    monotonic: Callable[[], float],
    report: Callable[[str], None],
) -> tuple[int, Any]:
    start = monotonic()
    said = False
    while True:
        try:
            return await _get(session, endpoint.url("/models"))
        except (aiohttp.ClientError, OSError) as error:
            problem = errors.of_exception(endpoint.shown, error, timeout=PROBE_TIMEOUT)
        waited = monotonic() - start
        if waited + PROBE_EVERY > wait or await pause(PROBE_EVERY):
            reason = str(problem).rstrip(".")
            message = (
                f"policy_base_url: {reason}, tried for {waited:.0f} s; start the server or pass --model-url."
            )
            raise EndpointError(message) from problem
        if waited >= REPORT_AFTER and not said:
            said = True
            report(f"waiting up to {wait:g} s for the model server: {problem}")


async def _get(session: aiohttp.ClientSession, url: yarl.URL) -> tuple[int, Any]:
    timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT)
    async with session.get(url, timeout=timeout) as answer:
        content = await http_body.read_body(answer, http_body.LONGEST_LISTING)
        try:
            return answer.status, json.loads(content) if content and answer.status == 200 else None
        except (ValueError, RecursionError):
            return answer.status, None


async def _answers_below_v1(session: aiohttp.ClientSession, endpoint: Endpoint) -> bool:
    try:
        status, _ = await _get(session, endpoint.url("/v1/models"))
    except (aiohttp.ClientError, OSError):
        return False
    return status == 200


async def _version(session: aiohttp.ClientSession, endpoint: Endpoint) -> str | None:
    """vLLM and some others report their version at ``/version`` beside ``/v1``."""
    root = endpoint.base_url.rstrip("/").removesuffix("/v1")
    try:
        _, answer = await _get(session, yarl.URL(root + "/version"))
    except (aiohttp.ClientError, OSError):
        return None
    version = answer.get("version") if isinstance(answer, dict) else None
    return version if isinstance(version, str) else None


def _entries(listing: Any) -> list[dict[str, Any]]:
    data = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(data, list):
        return []
    return [entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _wrong_name(endpoint: Endpoint, served: list[str]) -> str:
    shown = ", ".join(repr(name) for name in served[:5]) + (", …" if len(served) > 5 else "")
    hint = suggestion(endpoint.model, served)
    return f"policy_model_name: {endpoint.shown} does not serve {endpoint.model!r}{hint}; it serves {shown}."


def fingerprint(entry: dict[str, Any]) -> str | None:
    """A digest of what distinguishes these weights from others, or ``None`` if the server reports nothing of
    the kind.

    Left out is whatever changes from start to start (``created``, permissions, the context that was given).
    """
    facts: dict[str, Any] = {}
    meta = entry.get("meta")
    if isinstance(meta, dict):
        facts["meta"] = {key: meta[key] for key in _META if key in meta}
    root = entry.get("root")
    if isinstance(root, str) and root.startswith("/") and Path(root).is_dir():
        facts["files"] = _weight_files(Path(root))
    if not any(facts.values()):
        return None
    return "sha256:" + hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _weight_files(folder: Path) -> dict[str, Any]:
    described = [folder / "config.json", *sorted(folder.glob("*.index.json"))]
    facts: dict[str, Any] = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in described if path.is_file()
    }
    for pattern in _WEIGHTS:
        facts.update({path.name: path.stat().st_size for path in sorted(folder.glob(pattern))})
    return facts

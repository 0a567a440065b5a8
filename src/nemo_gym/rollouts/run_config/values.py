"""Kinds of values in a run configuration."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not a truth value")  # noqa: TRY004 - pydantic's protocol
    return value


LARGEST: Final = (1 << 63) - 1
"""The largest number that everything behind a configuration can count with."""
Count = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=1, le=LARGEST)]
"""A whole number from 1."""
Index = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=0, le=LARGEST)]
"""A whole number from 0."""
Seed = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=0)]
"""What a server is sent as it is."""
Number = Annotated[float, BeforeValidator(_no_truth_value), Field(allow_inf_nan=False)]
Seconds = Annotated[float, BeforeValidator(_no_truth_value), Field(ge=0, allow_inf_nan=False)]


class Strict(BaseModel):
    """Unknown keys are errors; a value never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def api_key_reference(value: str) -> str:
    """``dummy`` or ``host:VAR``; raises ``ValueError`` with a phrase for anything else."""
    if value != "dummy" and not re.fullmatch(r"host:[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("write host:VAR, the name of an environment variable that holds the key")
    return value


def is_address(url: str) -> bool:
    """Whether host and port can be made out."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


_ROUTES = {
    "/chat/completions": "chat",
    "/completions": "completions",
    "/responses": "responses",
    "/models": None,
    "/embeddings": None,
}
"""What people copy at the end of an address, and the API that it belongs to."""


def base_address(url: str, api: str) -> str:
    """The address below which a server's APIs are: what a route of ``api`` adds to it is cut off.

    Raises ``ValueError`` with a phrase, and the right address where it can be made out.
    """
    url = url.strip()
    if re.fullmatch(r"(localhost|[\w-]+\.[\w.-]+|[\w.-]+:\d+)(:\d+)?(/[^\s?#]*)?", url):
        near = _without_route(url)[0]
        raise ValueError(
            f"must look like http://HOST:PORT/v1; write http://{near if '/' in near else near + '/v1'}"
        )
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s]*", url):
        raise ValueError("must look like http://HOST:PORT/v1")
    if not is_address(url):
        raise ValueError("must look like http://HOST:PORT/v1, with a port from 1 to 65535 if with any")
    if "@" in url.split("/")[2]:
        raise ValueError("must not hold a password; use policy_api_key: host:VAR")
    address, found = _without_route(re.split(r"[?#]", url)[0])
    if "api-version=" in url and "/openai/" in f"{address}/":
        newer = address.split("/openai/")[0].removesuffix("/openai")
        raise ValueError(
            f"must not hold a query; write {newer}/openai/v1, Azure's API that needs none, "
            "with the deployment's name as policy_model_name"
        )
    if "?" in url or "#" in url:
        raise ValueError(f"must not hold a query or a fragment; write {address}")
    if found is not None and found != api:
        raise ValueError(
            f"is the address of the API {found!r}, but policy_api is {api!r}; "
            f"write {address}, with policy_api={found} if that is meant"
        )
    return address


def _without_route(url: str) -> tuple[str, str | None]:
    url = url.rstrip("/")
    for route, api in _ROUTES.items():
        if url.lower().endswith(route):
            return url[: -len(route)].rstrip("/"), api
    return url, None

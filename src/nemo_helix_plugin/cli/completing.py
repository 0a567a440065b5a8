"""What a shell may complete in `nemo`: names of jobs, execution profiles, contexts.

The service is asked once and has a moment to answer; without an answer nothing is completed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from nemo_cli.completion import completes

if TYPE_CHECKING:
    from nemo_helix_plugin.client.client import NemoClient

_WAIT = 2.0
"""Seconds that the service has to answer."""
_MOST = 100


def _typed(ctx: click.Context | None, name: str) -> str | None:
    """What was typed for a global option, nearest to the command first."""
    while ctx is not None:
        if ctx.params.get(name):
            return str(ctx.params[name])
        ctx = ctx.parent
    return None


def _client(ctx: click.Context) -> NemoClient:
    from nemo_helix_plugin.client.client import NemoClient
    from nemo_helix_plugin.client.retries import RetryPolicy
    from nemo_helix_plugin.config.contexts import resolve

    found = resolve(
        context=_typed(ctx, "context"), base_url=_typed(ctx, "base_url"), workspace=_typed(ctx, "workspace")
    )
    return NemoClient(
        base_url=found.base_url,
        workspace=found.workspace,
        auth=found.access_token,
        certificate_authority=found.certificate_authority,
        context=found.context,
        origin=found.origin,
        retry=RetryPolicy.none(),
        timeout=_WAIT,
    )


def _jobs(ctx: click.Context, _incomplete: str) -> Iterable[tuple[str, str]]:
    with _client(ctx) as client:
        return [(job.name, str(job.status)) for job in client.jobs.list(page_size=_MOST).page().items]


def _profiles(ctx: click.Context, _incomplete: str) -> Iterable[tuple[str, str]]:
    with _client(ctx) as client:
        found = client.profiles.list().page().items
        return [(profile.profile, profile.provider) for profile in found]


def _providers_and_profiles(ctx: click.Context, _incomplete: str) -> Iterable[tuple[str, str]]:
    with _client(ctx) as client:
        found = client.profiles.list().page().items
        return [(f"{profile.provider}/{profile.profile}", profile.backend) for profile in found]


def _contexts(_ctx: click.Context, _incomplete: str) -> Iterable[tuple[str, str]]:
    from nemo_helix_plugin.config import contexts

    entries = contexts.view(all_contexts=True).get("contexts") or []
    return [(str(entry["name"]), str(entry.get("cluster") or "")) for entry in entries]


job_names = completes(_jobs)
profile_names = completes(_profiles)
providers_and_profiles = completes(_providers_and_profiles)
context_names = completes(_contexts)

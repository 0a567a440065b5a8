"""What a publisher process needs to reach a tracker: an interpreter, an address, a key.

The service's own key goes only to the service's own address: a job that names another address needs a key of
its workspace for it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from nemo_helix_server.engines import catalogue, environments, sources
from nemo_helix_server.errors import ServerError
from nemo_helix_server.settings import Settings
from nemo_helix_server.storage import secret_store
from nemo_helix_server.trackers.descriptions import TrackerEndpoint
from nemo_helix_server.trackers.errors import OffError
from nemo_runs import addresses

_KEPT = (
    "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
"""Variables of the service that a publisher gets whatever it publishes to."""
_OWN = {"wandb": "WANDB_", "mlflow": "MLFLOW_"}
_OF_ONE_RUN = frozenset({
    "RUN_ID", "RESUME", "RESUME_FROM", "FORK_FROM", "RUN_GROUP", "RUN_NAME", "NAME", "NOTES", "TAGS",
    "JOB_TYPE", "SWEEP_ID", "DIR", "RUN_DIR", "SERVICE", "PROJECT", "EXPERIMENT_ID", "EXPERIMENT_NAME",
})  # fmt: skip
"""What variables of trackers' libraries say of one certain run."""
_WANDB_ONLINE = {"online", "run", "shared"}
_WANDB_OFFLINE = {"offline", "dryrun"}


GUARDED = "NEMO_TRACKER_HOSTS"
"""Makes a publisher follow no redirect to this machine, but to these hosts."""


@dataclass(frozen=True, slots=True)
class TrackerEndpoints:
    """Finds out what it takes to go through a door."""

    settings: Settings
    environ: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Where publishers keep their files."""
        return self.settings.data_dir / "trackers"

    def python(self) -> Path:
        """The interpreter with the trackers' libraries; raises `OffError` with the command that makes it."""
        if self.settings.engines.trackers.python is not None:
            return self.settings.engines.trackers.python
        recipe = catalogue.recipe("trackers")
        # the packages are the same for every device: nothing is asked of one
        found = environments.find(recipe, "cpu", self._cache()) or environments.find(
            recipe, "cuda", self._cache()
        )
        if found is None:
            raise OffError(
                "the libraries of the trackers are not installed: run `nemo engines install trackers`"
            )
        return found.python

    def environment(self, endpoint: TrackerEndpoint) -> dict[str, str]:
        """The variables of the publisher's process; raises `OffError`."""
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        common = {
            **{name: self.environ[name] for name in _KEPT if name in self.environ},
            # libraries read keys from the home folder and send them to any address
            "HOME": str(home),
            "PYTHONPATH": str(sources.source_path(self._cache())),
            "PYTHONNOUSERSITE": "1",
        }
        # the one of W&B is led by a program of its own, which asks this machine for its work
        guarded = endpoint.tracker == "mlflow" and self.settings.trackers.allowed_hosts is not None
        if endpoint.address and guarded:
            common[GUARDED] = " ".join(self.settings.trackers.allowed_hosts or ())
        own = {} if endpoint.address else self._own(endpoint)
        return {
            **common,
            **own,
            **(self._wandb(endpoint) if endpoint.tracker == "wandb" else self._mlflow(endpoint)),
        }

    def _own(self, endpoint: TrackerEndpoint) -> dict[str, str]:
        """The service's variables for this tracker, but those that are about one certain run."""
        own = _OWN[endpoint.tracker]
        return {
            name: value
            for name, value in self.environ.items()
            if name.startswith(own) and name.removeprefix(own) not in _OF_ONE_RUN
        }

    def _wandb(self, endpoint: TrackerEndpoint) -> dict[str, str]:
        mode = self.settings.trackers.wandb_mode or self.environ.get("WANDB_MODE") or "online"
        if mode in _WANDB_OFFLINE:
            return {"WANDB_MODE": "offline"}
        if mode not in _WANDB_ONLINE:
            raise OffError(f"W&B is switched off in the service (its mode is '{mode}')")
        key = self._key(endpoint) or (None if endpoint.address else self.environ.get("WANDB_API_KEY"))
        if not key:
            raise OffError(
                "there is no API key for W&B: name a secret of the workspace in "
                "integrations.wandb.api_key_secret"
                + ("" if endpoint.address else ", or give the service WANDB_API_KEY")
            )
        address = (
            {"WANDB_BASE_URL": self._checked(endpoint.address, "integrations.wandb.base_url")}
            if endpoint.address
            else {}
        )
        return {"WANDB_MODE": "online", "WANDB_API_KEY": key, **address}

    def _mlflow(self, endpoint: TrackerEndpoint) -> dict[str, str]:
        own = self.environ.get("MLFLOW_TRACKING_URI")
        address = (
            self._checked(endpoint.address, "integrations.mlflow.tracking_uri") if endpoint.address else own
        )
        if not address:
            raise OffError(
                "there is no address of an MLflow server: set integrations.mlflow.tracking_uri, or give the "
                "service MLFLOW_TRACKING_URI"
            )
        return {
            "MLFLOW_TRACKING_URI": address,
            # it is tried again by us, and a server that hangs is not waited for
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
            "MLFLOW_HTTP_REQUEST_TIMEOUT": str(max(1, int(self.settings.trackers.timeout_seconds / 3))),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
            "GIT_PYTHON_REFRESH": "quiet",
        }

    def _checked(self, address: str, field: str) -> str:
        return check_address(address, field, self.settings.trackers.allowed_hosts)

    def _key(self, endpoint: TrackerEndpoint) -> str | None:
        if endpoint.secret is None:
            return None
        try:
            path = secret_store.value_path(self.settings.data_dir, endpoint.workspace, endpoint.secret)
            return path.read_text(encoding="utf-8").strip()
        except ServerError as error:
            raise OffError(error.detail) from error
        except FileNotFoundError:
            raise OffError(
                f"there is no secret '{endpoint.secret}' in the workspace '{endpoint.workspace}', which "
                "integrations.wandb.api_key_secret names"
            ) from None

    def _cache(self) -> Path:
        return environments.cache_folder(self.environ)


def check_address(address: str, field: str, allowed: Collection[str] | None) -> str:
    """An address that a job may name: a server's, not a file of the service's user, nor this machine itself.

    Hosts in ``allowed`` may be anywhere; `None`: all may. Raises `OffError`.
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        parts, host = urlsplit(""), None
    plain = address.isprintable() and " " not in address and "\\" not in address
    if parts.scheme not in {"http", "https"} or not host or "@" in parts.netloc or not plain:
        raise OffError(f"{field} must be the http or https address of a server, without a name or password")
    if allowed is not None and host not in allowed:
        where = addresses.internal(host)
        if where is not None:
            raise OffError(
                f"{field} leads to {where}, which only this machine may ask; name another tracker, or put "
                f"'{host}' into the setting trackers.allowed_hosts of the service"
            )
    return address


def tracker_endpoints(settings: Settings) -> TrackerEndpoints:
    """With the service's own environment."""
    return TrackerEndpoints(settings, dict(os.environ))

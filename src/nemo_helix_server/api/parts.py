"""The parts of a running service that routes call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nemo_helix_server.api.health import HealthProbe
from nemo_helix_server.api.streams import Broadcaster
from nemo_helix_server.auth.authentication import Authenticator
from nemo_helix_server.customizer.service import Customizer
from nemo_helix_server.customizer.templates import TemplateRepository
from nemo_helix_server.files.filesets import Filesets
from nemo_helix_server.logs.pages import LogPages
from nemo_helix_server.models.registry import ModelRegistry
from nemo_helix_server.service.checkpoint_catalogue import CheckpointCatalogue
from nemo_helix_server.service.jobs import JobsService
from nemo_helix_server.service.profile_checks import ProfileChecks
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.service.token_store import TokenStore
from nemo_helix_server.service.workspaces import WorkspaceRepository
from nemo_helix_server.storage.artifacts import ArtifactReader
from nemo_helix_server.storage.secret_store import SecretStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    """Everything that the application is made of."""

    jobs: JobsService
    checkpoints: CheckpointCatalogue
    logs: LogPages
    artifacts: ArtifactReader
    authenticator: Authenticator
    tokens: TokenStore
    secrets: SecretStore
    workspaces: WorkspaceRepository
    broadcaster: Broadcaster
    profiles: Profiles
    profile_checks: ProfileChecks
    filesets: Filesets
    models: ModelRegistry
    customizer: Customizer
    templates: TemplateRepository
    health: HealthProbe
    controller_problems: Callable[[], Sequence[str]]
    """What is wrong with the controller, each a sentence; nothing when it works."""

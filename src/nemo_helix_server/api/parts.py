"""The parts of a running service that routes call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nemo_helix_server.api.health import Pulse
from nemo_helix_server.api.streams import Broadcaster
from nemo_helix_server.auth.authentication import Authenticator
from nemo_helix_server.customizer.service import Customizer
from nemo_helix_server.customizer.templates import TemplateKeeper
from nemo_helix_server.files.filesets import Filesets
from nemo_helix_server.logs.pages import LogPages
from nemo_helix_server.models.registry import ModelKeeper
from nemo_helix_server.service.checkpoint_catalogue import CheckpointCatalogue
from nemo_helix_server.service.jobs import JobsService
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.service.token_store import TokenKeeper
from nemo_helix_server.service.workspaces import WorkspaceKeeper
from nemo_helix_server.storage.artifacts import ArtifactReader
from nemo_helix_server.storage.secret_store import SecretKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that the application is made of."""

    jobs: JobsService
    checkpoints: CheckpointCatalogue
    logs: LogPages
    artifacts: ArtifactReader
    authenticator: Authenticator
    tokens: TokenKeeper
    secrets: SecretKeeper
    workspaces: WorkspaceKeeper
    broadcaster: Broadcaster
    profiles: Profiles
    filesets: Filesets
    models: ModelKeeper
    customizer: Customizer
    templates: TemplateKeeper
    pulse: Pulse
    controller_problems: Callable[[], Sequence[str]]
    """What is wrong with the controller, each a sentence; nothing when it works."""

"""The sub-clients of fine-tuning: `client.customization.<backend>.jobs`, `client.files`, `client.models`.

One class serves every backend, so that the methods of each are those of all.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from nemo_helix_plugin.client.calls import files, tuning
from nemo_helix_plugin.client.calls.call import Call
from nemo_helix_plugin.client.handle import with_handle
from nemo_helix_plugin.client.methods import AsyncGroup, Group, Method
from nemo_helix_plugin.client.session import AsyncSession, ClientSession
from nemo_helix_plugin.customization import backends

Arguments = ParamSpec("Arguments")
Sync = TypeVar("Sync")
Async = TypeVar("Async")


class BackendMethod(Generic[Arguments, Sync, Async]):
    """A method of a backend's group, made of the builder of its call, which takes the backend first."""

    def __init__(self, build: Callable[Concatenate[str, Arguments], Call[Sync, Async]]) -> None:
        self._build = build
        self._name = build.__name__
        self.__doc__ = build.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: BackendGroup, owner: type | None = None) -> Callable[Arguments, Sync]: ...
    @overload
    def __get__(
        self, instance: AsyncBackendGroup, owner: type | None = None
    ) -> Callable[Arguments, Awaitable[Async]]: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    def __get__(self, instance: BackendGroup | AsyncBackendGroup | None, owner: type | None = None) -> Any:
        """The method of a client, or this itself on the class."""
        if instance is None:
            return self
        method = Method(self._of(instance.backend))
        method.__set_name__(type(instance), self._name)
        return method.__get__(instance)

    def _of(self, backend: str) -> Callable[Arguments, Call[Sync, Async]]:
        @functools.wraps(self._build)
        def bound(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Call[Sync, Async]:
            return self._build(backend, *args, **kwargs)

        whole = inspect.signature(self._build)
        own = [parameter for name, parameter in whole.parameters.items() if name != "backend"]
        vars(bound).update(__signature__=whole.replace(parameters=own))
        return bound


class BackendGroup(Group):
    """Methods of one backend."""

    def __init__(self, session: ClientSession, backend: str) -> None:
        super().__init__(session)
        self.backend = backend

    @classmethod
    def from_client(cls, client: Any, backend: str | None = None) -> Self:
        """The same over the connection of a client, or of a group, whose backend is the default."""
        return cls(client._session, backend or client.backend)  # noqa: SLF001 - clients and groups are one family


class AsyncBackendGroup(AsyncGroup):
    """Methods of one backend."""

    def __init__(self, session: AsyncSession, backend: str) -> None:
        super().__init__(session)
        self.backend = backend

    @classmethod
    def from_client(cls, client: Any, backend: str | None = None) -> Self:
        """The same over the connection of a client, or of a group, whose backend is the default."""
        return cls(client._session, backend or client.backend)  # noqa: SLF001 - clients and groups are one family


class _BackendJobs:
    create = BackendMethod(with_handle(tuning.create_job))
    list = BackendMethod(tuning.list_jobs)
    get = BackendMethod(tuning.get_job)
    get_status = BackendMethod(tuning.get_status)
    cancel = BackendMethod(tuning.cancel_job)
    delete = BackendMethod(tuning.delete_job)


class _Backend:
    explain = BackendMethod(tuning.explain)
    preview = BackendMethod(tuning.preview)
    dry_run = BackendMethod(tuning.dry_run)


class _Templates:
    create = Method(tuning.create_template)
    list = Method(tuning.list_templates)
    get = Method(tuning.get_template)
    update = Method(tuning.update_template)
    delete = Method(tuning.delete_template)


class _Files:
    create_fileset = Method(files.create_fileset)
    list_filesets = Method(files.list_filesets)
    get_fileset = Method(files.get_fileset)
    delete_fileset = Method(files.delete_fileset)
    list_files = Method(files.list_files)
    upload_file = Method(files.upload_file)
    download_file = Method(files.download_file)
    delete_file = Method(files.delete_file)


class _Models:
    create = Method(files.create_model)
    list = Method(files.list_models)
    get = Method(files.get_model)
    delete = Method(files.delete_model)


class BackendJobsClient(_BackendJobs, BackendGroup):
    """Jobs of a backend."""


class AsyncBackendJobsClient(_BackendJobs, AsyncBackendGroup):
    """Jobs of a backend."""


class TemplatesClient(_Templates, Group):
    """Saved specs."""


class AsyncTemplatesClient(_Templates, AsyncGroup):
    """Saved specs."""


class BackendClient(_Backend, BackendGroup):
    """One backend."""

    @property
    def jobs(self) -> BackendJobsClient:
        """Its jobs."""
        return BackendJobsClient(self._session, self.backend)


class AsyncBackendClient(_Backend, AsyncBackendGroup):
    """One backend."""

    @property
    def jobs(self) -> AsyncBackendJobsClient:
        """Its jobs."""
        return AsyncBackendJobsClient(self._session, self.backend)


class CustomizationClient(Group):
    """Fine-tuning, backend by backend: each is an attribute of its name."""

    health = Method(tuning.health)

    if TYPE_CHECKING:  # what editors complete; another package's backend is `backend(name)` to them
        automodel: BackendClient
        unsloth: BackendClient
        rl: BackendClient
    else:

        def __getattr__(self, name: str) -> BackendClient:
            return self.backend(_known(name))

    def backend(self, name: str) -> BackendClient:
        """A backend by its name, whether it is known here or on the service alone."""
        return BackendClient(self._session, name)

    @property
    def templates(self) -> TemplatesClient:
        """Saved specs."""
        return TemplatesClient(self._session)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *backends.names()]


class AsyncCustomizationClient(AsyncGroup):
    """Fine-tuning, backend by backend: each is an attribute of its name."""

    health = Method(tuning.health)

    if TYPE_CHECKING:
        automodel: AsyncBackendClient
        unsloth: AsyncBackendClient
        rl: AsyncBackendClient
    else:

        def __getattr__(self, name: str) -> AsyncBackendClient:
            return self.backend(_known(name))

    def backend(self, name: str) -> AsyncBackendClient:
        """A backend by its name, whether it is known here or on the service alone."""
        return AsyncBackendClient(self._session, name)

    @property
    def templates(self) -> AsyncTemplatesClient:
        """Saved specs."""
        return AsyncTemplatesClient(self._session)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *backends.names()]


def _known(name: str) -> str:
    """A backend's name; raises `AttributeError` for what is none."""
    if name not in backends.names():
        known = ", ".join(backends.names())
        raise AttributeError(f"there is no backend '{name}' here; known are {known}", name=name)
    return name


class FilesClient(_Files, Group):
    """Filesets and their files."""


class AsyncFilesClient(_Files, AsyncGroup):
    """Filesets and their files."""


class ModelsClient(_Models, Group):
    """Models by name."""


class AsyncModelsClient(_Models, AsyncGroup):
    """Models by name."""

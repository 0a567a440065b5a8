"""The sub-clients of fine-tuning: `client.customization.<backend>.jobs`, `client.files`, `client.models`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from nemo_helix_plugin.client.calls import files, tuning
from nemo_helix_plugin.client.calls.call import Call
from nemo_helix_plugin.client.methods import AsyncGroup, Group, Method

Arguments = ParamSpec("Arguments")
Sync = TypeVar("Sync")
Async = TypeVar("Async")


def _of(
    backend: str, build: Callable[Concatenate[str, Arguments], Call[Sync, Async]]
) -> Method[Arguments, Sync, Async]:
    """The method of one backend."""

    @functools.wraps(build)
    def bound(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Call[Sync, Async]:
        return build(backend, *args, **kwargs)

    whole = inspect.signature(build)
    own = [parameter for name, parameter in whole.parameters.items() if name != "backend"]
    vars(bound).update(__signature__=whole.replace(parameters=own))
    return Method(bound)


class _AutomodelJobs:
    create = _of("automodel", tuning.create_job)
    list = _of("automodel", tuning.list_jobs)
    get = _of("automodel", tuning.get_job)
    get_status = _of("automodel", tuning.get_status)
    cancel = _of("automodel", tuning.cancel_job)
    delete = _of("automodel", tuning.delete_job)


class _UnslothJobs:
    create = _of("unsloth", tuning.create_job)
    list = _of("unsloth", tuning.list_jobs)
    get = _of("unsloth", tuning.get_job)
    get_status = _of("unsloth", tuning.get_status)
    cancel = _of("unsloth", tuning.cancel_job)
    delete = _of("unsloth", tuning.delete_job)


class _RlJobs:
    create = _of("rl", tuning.create_job)
    list = _of("rl", tuning.list_jobs)
    get = _of("rl", tuning.get_job)
    get_status = _of("rl", tuning.get_status)
    cancel = _of("rl", tuning.cancel_job)
    delete = _of("rl", tuning.delete_job)


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


class AutomodelJobsClient(_AutomodelJobs, Group):
    """Jobs of the backend ``automodel``."""


class AsyncAutomodelJobsClient(_AutomodelJobs, AsyncGroup):
    """Jobs of the backend ``automodel``."""


class UnslothJobsClient(_UnslothJobs, Group):
    """Jobs of the backend ``unsloth``."""


class AsyncUnslothJobsClient(_UnslothJobs, AsyncGroup):
    """Jobs of the backend ``unsloth``."""


class RlJobsClient(_RlJobs, Group):
    """Jobs of the backend ``rl``."""


class AsyncRlJobsClient(_RlJobs, AsyncGroup):
    """Jobs of the backend ``rl``."""


class TemplatesClient(_Templates, Group):
    """Saved specs."""


class AsyncTemplatesClient(_Templates, AsyncGroup):
    """Saved specs."""


class AutomodelClient(Group):
    """Supervised fine-tuning with NeMo Automodel."""

    explain = _of("automodel", tuning.explain)
    preview = _of("automodel", tuning.preview)

    @property
    def jobs(self) -> AutomodelJobsClient:
        """Its jobs."""
        return AutomodelJobsClient(self._session)


class AsyncAutomodelClient(AsyncGroup):
    """Supervised fine-tuning with NeMo Automodel."""

    explain = _of("automodel", tuning.explain)
    preview = _of("automodel", tuning.preview)

    @property
    def jobs(self) -> AsyncAutomodelJobsClient:
        """Its jobs."""
        return AsyncAutomodelJobsClient(self._session)


class UnslothClient(Group):
    """Supervised fine-tuning with Unsloth."""

    explain = _of("unsloth", tuning.explain)
    preview = _of("unsloth", tuning.preview)

    @property
    def jobs(self) -> UnslothJobsClient:
        """Its jobs."""
        return UnslothJobsClient(self._session)


class AsyncUnslothClient(AsyncGroup):
    """Supervised fine-tuning with Unsloth."""

    explain = _of("unsloth", tuning.explain)
    preview = _of("unsloth", tuning.preview)

    @property
    def jobs(self) -> AsyncUnslothJobsClient:
        """Its jobs."""
        return AsyncUnslothJobsClient(self._session)


class RlClient(Group):
    """DPO and GRPO."""

    explain = _of("rl", tuning.explain)
    preview = _of("rl", tuning.preview)

    @property
    def jobs(self) -> RlJobsClient:
        """Its jobs."""
        return RlJobsClient(self._session)


class AsyncRlClient(AsyncGroup):
    """DPO and GRPO."""

    explain = _of("rl", tuning.explain)
    preview = _of("rl", tuning.preview)

    @property
    def jobs(self) -> AsyncRlJobsClient:
        """Its jobs."""
        return AsyncRlJobsClient(self._session)


class CustomizationClient(Group):
    """Fine-tuning, backend by backend."""

    health = Method(tuning.health)

    @property
    def automodel(self) -> AutomodelClient:
        """Supervised fine-tuning with NeMo Automodel."""
        return AutomodelClient(self._session)

    @property
    def unsloth(self) -> UnslothClient:
        """Supervised fine-tuning with Unsloth."""
        return UnslothClient(self._session)

    @property
    def rl(self) -> RlClient:
        """DPO and GRPO."""
        return RlClient(self._session)

    @property
    def templates(self) -> TemplatesClient:
        """Saved specs."""
        return TemplatesClient(self._session)


class AsyncCustomizationClient(AsyncGroup):
    """Fine-tuning, backend by backend."""

    health = Method(tuning.health)

    @property
    def automodel(self) -> AsyncAutomodelClient:
        """Supervised fine-tuning with NeMo Automodel."""
        return AsyncAutomodelClient(self._session)

    @property
    def unsloth(self) -> AsyncUnslothClient:
        """Supervised fine-tuning with Unsloth."""
        return AsyncUnslothClient(self._session)

    @property
    def rl(self) -> AsyncRlClient:
        """DPO and GRPO."""
        return AsyncRlClient(self._session)

    @property
    def templates(self) -> AsyncTemplatesClient:
        """Saved specs."""
        return AsyncTemplatesClient(self._session)


class FilesClient(_Files, Group):
    """Filesets and their files."""


class AsyncFilesClient(_Files, AsyncGroup):
    """Filesets and their files."""


class ModelsClient(_Models, Group):
    """Models by name."""


class AsyncModelsClient(_Models, AsyncGroup):
    """Models by name."""

"""One listing of methods for both kinds of clients: a call's builder becomes a method that makes the call.

``pause_job = Method(job_calls.pause_job)`` in a group's class is, on a synchronous client, a function with
the builder's arguments that returns the answer, and on an asynchronous one a function to be awaited.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from nemo_helix_plugin.client.calls.call import Call
from nemo_helix_plugin.client.session import AsyncSession, ClientSession

Arguments = ParamSpec("Arguments")
Sync = TypeVar("Sync")
Async = TypeVar("Async")


class Group:
    """Methods of one kind of thing, on a synchronous client."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    @classmethod
    def from_client(cls, client: Any) -> Self:
        """The same methods over the connection of a client, or of another group."""
        return cls(client._session)  # noqa: SLF001 - clients and groups are one family


class AsyncGroup:
    """Methods of one kind of thing, on an asynchronous client."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    @classmethod
    def from_client(cls, client: Any) -> Self:
        """The same methods over the connection of a client, or of another group."""
        return cls(client._session)  # noqa: SLF001 - clients and groups are one family


class Method(Generic[Arguments, Sync, Async]):
    """A method of a group, made of the builder of its call."""

    def __init__(self, build: Callable[Arguments, Call[Sync, Async]]) -> None:
        self._build = build
        self._name = build.__name__
        self.__doc__ = build.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: Group, owner: type | None = None) -> Callable[Arguments, Sync]: ...
    @overload
    def __get__(
        self, instance: AsyncGroup, owner: type | None = None
    ) -> Callable[Arguments, Awaitable[Async]]: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    def __get__(self, instance: Group | AsyncGroup | None, owner: type | None = None) -> Any:
        """The method of a client, or this itself on the class."""
        if instance is None:
            return self
        return self._asynchronous(instance) if isinstance(instance, AsyncGroup) else self._sync(instance)

    def _sync(self, group: Group) -> Callable[Arguments, Sync]:
        @functools.wraps(self._build)
        def method(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Sync:
            call = self._call(*args, **kwargs)
            return call.sync(group._session, call.request)  # noqa: SLF001 - a method of the group

        return method

    def _asynchronous(self, group: AsyncGroup) -> Callable[Arguments, Awaitable[Async]]:
        @functools.wraps(self._build)
        async def method(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Async:
            call = self._call(*args, **kwargs)
            return await call.asynchronous(group._session, call.request)  # noqa: SLF001 - as above

        return method

    def _call(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Call[Sync, Async]:
        signature = inspect.signature(self._build)
        if args:
            shown = ", ".join(f"{name}=…" for name in signature.parameters)
            raise TypeError(f"{self._name}() takes named arguments only: {self._name}({shown})")
        try:
            signature.bind(**kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}(): {error}") from None
        return self._build(*args, **kwargs)

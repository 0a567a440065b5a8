"""What a call gives back: the object of an answer, and lists that fetch their pages as they are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from nemo_helix_plugin.client import failures
from nemo_helix_plugin.jobs.models import Page, Pagination
from nemo_helix_plugin.jobs.schemas import HelixJobLog, HelixJobLogPage

if TYPE_CHECKING:
    import httpx

Content = TypeVar("Content")
Model = TypeVar("Model", bound=BaseModel)


class NemoResponse(Generic[Content]):
    """The answer to a call."""

    def __init__(self, answer: httpx.Response, content: Content) -> None:
        self.http_response = answer
        self._content = content

    @classmethod
    def of(cls, answer: httpx.Response, model: type[Model], where: str) -> NemoResponse[Model]:
        """Read an answer as ``model``; raises `NemoResponseValidationError` if it is none."""
        return NemoResponse(answer, failures.validated(answer, model, where))

    def data(self) -> Content:
        """The object that the service answered with."""
        return self._content

    def json(self) -> Any:
        """The body as it came, with fields that this version does not know."""
        return self.http_response.json() if self.http_response.content else None

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        return self.http_response.status_code

    @property
    def headers(self) -> httpx.Headers:
        """The HTTP headers."""
        return self.http_response.headers

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status_code}>"


@dataclass(frozen=True, slots=True)
class ItemPage(Generic[Model]):
    """One page of a list."""

    items: list[Model]
    metadata: Pagination


class _Seen:
    """Leaves out what is on a later page once more because the list grew meanwhile."""

    def __init__(self) -> None:
        self._identities: set[str] = set()

    def new(self, items: list[Model]) -> Iterator[Model]:
        for item in items:
            identity = getattr(item, "id", None)
            if identity is None:
                yield item
            elif identity not in self._identities:
                self._identities.add(identity)
                yield item


def _rest(page: Page[Model]) -> int | None:
    """How many items are on this page and after it; None when the service does not say."""
    if page.pagination is None:
        return len(page.data)
    before = (page.pagination.page - 1) * page.pagination.page_size
    return max(page.pagination.total_results - before, len(page.data))


def _more(page: Page[Model]) -> int | None:
    """Number of the page after this one; None at the end."""
    paging = page.pagination
    if paging is None or not page.data or paging.page >= paging.total_pages:
        return None
    return paging.page + 1


def _item_page(page: Page[Model]) -> ItemPage[Model]:
    whole = Pagination(page_size=len(page.data), current_page_size=len(page.data), total_pages=1)
    whole.total_results = len(page.data)
    return ItemPage(page.data, page.pagination or whole)


class Items(Generic[Model]):
    """The items of all pages from the first one asked for; pages are fetched as they are reached.

    ``len()`` is what the service said the total is, and TypeError where it said nothing.
    """

    def __init__(self, walk: Callable[[], Iterator[Model]], total: int | None) -> None:
        self._walk = walk
        self._total = total

    def __iter__(self) -> Iterator[Model]:
        return self._walk()

    def __len__(self) -> int:
        if self._total is None:
            raise TypeError("the service does not say how many items there are; iterate to count them")
        return self._total


class AsyncItems(Generic[Model]):
    """The same for ``async for``."""

    def __init__(self, walk: Callable[[], AsyncIterator[Model]], total: int | None) -> None:
        self._walk = walk
        self._total = total

    def __aiter__(self) -> AsyncIterator[Model]:
        return self._walk()

    def __len__(self) -> int:
        if self._total is None:
            raise TypeError("the service does not say how many items there are; iterate to count them")
        return self._total


class PagedResponse(NemoResponse[Page[Model]], Generic[Model]):
    """The answer to a call for a list."""

    def __init__(
        self, first: NemoResponse[Page[Model]], load: Callable[[int], NemoResponse[Page[Model]]]
    ) -> None:
        super().__init__(first.http_response, first.data())
        self._load = load

    def page(self) -> ItemPage[Model]:
        """The page that was asked for."""
        return _item_page(self.data())

    def pages(self) -> Iterator[NemoResponse[Page[Model]]]:
        """The answers for this page and all after it."""
        answer: NemoResponse[Page[Model]] = self
        yield answer
        while (number := _more(answer.data())) is not None:
            answer = self._load(number)
            yield answer

    def items(self) -> Items[Model]:
        """All items, from this page on."""
        return Items(self._walk, _rest(self.data()))

    def _walk(self) -> Iterator[Model]:
        seen = _Seen()
        for answer in self.pages():
            yield from seen.new(answer.data().data)


class AsyncPagedResponse(NemoResponse[Page[Model]], Generic[Model]):
    """The same, fetching with ``await``."""

    def __init__(
        self, first: NemoResponse[Page[Model]], load: Callable[[int], Awaitable[NemoResponse[Page[Model]]]]
    ) -> None:
        super().__init__(first.http_response, first.data())
        self._load = load

    def page(self) -> ItemPage[Model]:
        """The page that was asked for."""
        return _item_page(self.data())

    async def pages(self) -> AsyncIterator[NemoResponse[Page[Model]]]:
        """The answers for this page and all after it."""
        answer: NemoResponse[Page[Model]] = self
        yield answer
        while (number := _more(answer.data())) is not None:
            answer = await self._load(number)
            yield answer

    def items(self) -> AsyncItems[Model]:
        """All items, from this page on."""
        return AsyncItems(self._walk, _rest(self.data()))

    async def _walk(self) -> AsyncIterator[Model]:
        seen = _Seen()
        async for answer in self.pages():
            for item in seen.new(answer.data().data):
                yield item


class LogResponse(NemoResponse[HelixJobLogPage]):
    """The answer to a call for log lines."""

    def __init__(
        self,
        first: NemoResponse[HelixJobLogPage],
        load: Callable[[str | None], NemoResponse[HelixJobLogPage]],
        *,
        whole: bool,
    ) -> None:
        super().__init__(first.http_response, first.data())
        self._load = load
        self._total = first.data().total if whole else None

    def items(self) -> Items[HelixJobLog]:
        """All lines, from this page on."""
        return Items(self._walk, self._total)

    def _walk(self) -> Iterator[HelixJobLog]:
        page = self.data()
        yield from page.data
        while page.data and page.next_page:
            page = self._load(page.next_page).data()
            yield from page.data


class AsyncLogResponse(NemoResponse[HelixJobLogPage]):
    """The same, fetching with ``await``."""

    def __init__(
        self,
        first: NemoResponse[HelixJobLogPage],
        load: Callable[[str | None], Awaitable[NemoResponse[HelixJobLogPage]]],
        *,
        whole: bool,
    ) -> None:
        super().__init__(first.http_response, first.data())
        self._load = load
        self._total = first.data().total if whole else None

    def items(self) -> AsyncItems[HelixJobLog]:
        """All lines, from this page on."""
        return AsyncItems(self._walk, self._total)

    async def _walk(self) -> AsyncIterator[HelixJobLog]:
        page = self.data()
        for line in page.data:
            yield line
        while page.data and page.next_page:
            page = (await self._load(page.next_page)).data()
            for line in page.data:
                yield line

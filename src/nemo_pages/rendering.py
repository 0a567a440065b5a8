"""Templates into pages: one Jinja environment made of the folders of all packages that have pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from nemo_pages import static_files
from nemo_pages.filters import FILTERS, FUNCTIONS
from nemo_pages.links import Links, Parameter, ServedLinks


@dataclass(frozen=True, slots=True)
class TemplateFolder:
    """A folder with templates in a package; templates of later folders can extend those of earlier ones."""

    package: str
    folder: str = "templates"


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """One link of the navigation."""

    title: str
    path: str
    """Address without the root path; the entry is the current one on every page below it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What surrounds the content of a page."""

    path: str
    """The page's own address without the root path."""
    links: Links
    live: bool = True
    """Whether a server is there that could send changes; `False` in a bundle."""
    made_at: float | None = None
    """Of a page in a bundle: when the bundle was made, in UTC seconds."""
    values: Mapping[str, Any] | None = None
    """Further values for all templates, such as the token of forms."""


BUNDLED: Final = "nemo_pages.bundled_links"
"""The name in a request's scope of the links of a page that becomes a file."""
OWN_FOLDER: Final = TemplateFolder("nemo_pages", "layout")


class Rendering:
    """Makes pages. Everything is escaped, and a value that a template names and nobody gave is an error."""

    def __init__(
        self,
        folders: Sequence[TemplateFolder] = (),
        *,
        program: str,
        navigation: Sequence[NavigationEntry] = (NavigationEntry("Runs", "/"),),
    ) -> None:
        """``program`` is what pages call what serves them: ``gym view``."""
        loaders = [PackageLoader(each.package, each.folder) for each in (OWN_FOLDER, *folders)]
        self._environment = Environment(
            loader=ChoiceLoader(loaders),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(FILTERS)
        self._environment.globals.update(FUNCTIONS, program=program, navigation=tuple(navigation))

    def text(self, template: str, frame: Frame, values: Mapping[str, Any]) -> str:
        """A template as text, with ``url(path, **query)`` and ``static(name)`` for the frame's links."""

        def url(path: str, **query: Parameter) -> str:
            return frame.links.url(path, query)

        def static(name: str) -> str:
            return frame.links.static(name, static_files.digest(name))

        frame_values = {
            "url": url,
            "static": static,
            "here": frame.path,
            "live": frame.live,
            "made_at": frame.made_at,
        }
        given = {**frame_values, **(frame.values or {}), **values}
        return self._environment.get_template(template).render(given)

    def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """The answer to a request. All templates know the values of `request.state.page_values`, if any."""
        text = self.text(template, frame_of(request), values)
        return HTMLResponse(text, status_code=status, headers={"vary": "HX-Request"})


def frame_of(request: Request) -> Frame:
    """What surrounds the page that a request asks for."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    path = request.scope["path"]
    own = path[len(root) :] if root and path.startswith(f"{root}/") else path
    if (bundled := request.scope.get(BUNDLED)) is not None:
        return Frame(own or "/", bundled, live=False, made_at=bundled.made_at)
    return Frame(own or "/", ServedLinks(root), values=getattr(request.state, "page_values", None))


def is_partial(request: Request) -> bool:
    """Whether a script of the page asks for a part of it; history of the browser asks for all of it."""
    headers = request.headers
    return headers.get("hx-request") == "true" and headers.get("hx-history-restore-request") != "true"

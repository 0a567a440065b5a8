"""What tests of pages look at: violations of accessibility rules, errors of the console, pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "screenshots"
"""Kept for people; ignored by Git."""
_AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1360, "height": 860}


def violations(page: Page) -> list[str]:
    """The rules of axe that a page breaks, each with the first elements that do."""
    page.evaluate(f"{_AXE};0")
    found: list[dict[str, Any]] = page.evaluate(
        "rules => axe.run(document, {runOnly: rules, preload: false}).then(found => found.violations)", _RULES
    )
    return [f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in found]


def screenshot(page: Page, name: str) -> Path:
    """A picture of the whole page in the ignored folder of screenshots."""
    SCREENSHOTS.mkdir(exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=True, animations="disabled")
    return path


def scrolls_sideways(page: Page) -> bool:
    """Whether the page is wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def look(page: Page, name: str) -> list[str]:
    """All that is wrong with a page in light, dark and on a phone; a picture of each is kept."""
    found = []
    for scheme, size in (("light", DESK), ("dark", DESK), ("light", PHONE), ("dark", PHONE)):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.set_viewport_size(size)  # type: ignore[arg-type]
        kind = f"{name}-{scheme}{'-phone' if size is PHONE else ''}"
        screenshot(page, kind)
        found += [f"{kind}: {each}" for each in violations(page)]
        if scrolls_sideways(page):
            found.append(f"{kind}: scrolls sideways")
    page.set_viewport_size(DESK)  # type: ignore[arg-type]
    return found

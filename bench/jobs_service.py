"""The Jobs service beside bare SQL and bare processes, measured in turns in one run.

    python bench/jobs_service.py [--rounds 30]
        [--only create,running,pausing,backlog,watched,pages,browser,idle]
    python bench/jobs_service.py --before REVISION [--rounds 30]

Limits: a job is made in 15 ms; its command begins, and is shown to be active, within 150 ms over the start of
a process; a pause is seen in 0.5 s; a filtered page among 100,000 jobs takes 15 ms over its SQL, with 80
watchers too, and the list in a browser 150 ms; 1,000 trivial jobs end at 30 a second, none failed;
80 watchers slow no plain read; an idle service takes 2 % of a core. Ends with 1 when one of them is passed.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from helix import before, browser, crowds, requests
from helix.program import Program

SLOTS = 8


def bare_rate(count: int) -> float:
    """Trivial processes a second, as many at once as the service has slots."""
    began = time.perf_counter()
    with ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(lambda _: subprocess.run(["/bin/true"], check=True), range(count)))
    return count / (time.perf_counter() - began)


def few(only: set[str], slots: int, actions: dict[str, Callable[[Program], bool]]) -> bool:
    """Measurements on a service of their own that has few jobs."""
    wanted = [action for name, action in actions.items() if name in only]
    if not wanted:
        return True
    with tempfile.TemporaryDirectory() as folder:
        service = Program(Path(folder, "data"), slots=slots)
        try:
            kept = [action(service) for action in wanted]
            return all(kept)
        finally:
            service.end()


def many(rounds: int, only: set[str], count: int) -> bool:
    """Measurements on a service that has very many jobs."""
    if not only & {"pages", "browser", "watched", "idle"}:
        return True
    with tempfile.TemporaryDirectory() as folder:
        service = Program(Path(folder, "data"))
        try:
            crowds.populate(service, count)
            kept = []
            if "pages" in only:
                kept.append(crowds.pages(service, rounds, "nobody watches"))
                with crowds.watchers(service):
                    kept.append(crowds.pages(service, rounds, f"{crowds.WATCHERS} watch"))
            if "browser" in only:
                kept.append(browser.first_pages(service, rounds))
            if "watched" in only:
                kept.append(crowds.watched(service, 5 * rounds))
            if "idle" in only:
                kept.append(crowds.idle(service, 20.0))
            return all(kept)
        finally:
            service.end()


@contextlib.contextmanager
def earlier(revision: str) -> Iterator[Path]:
    """The tree of a revision, checked out for a while."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        git = ["git", "-C", str(Path(__file__).parents[1]), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30, help="how often each is done (default: 30)")
    parser.add_argument("--jobs", type=int, default=100_000, help="jobs among which pages are looked for")
    parser.add_argument("--only", default="create,running,pausing,backlog,watched,pages,browser,idle")
    parser.add_argument(
        "--before", metavar="REVISION", help="create and backlog beside the code of a revision"
    )
    given = parser.parse_args()
    only, rounds = set(given.only.split(",")), given.rounds
    print(f"{'':44} {'ms':>9} {'bare ms':>9} {'ratio':>7} {'over, ms':>9}  limit")
    if given.before:
        with earlier(given.before) as source:
            before.compare(source, rounds, SLOTS)
        return 0
    kept = [
        few(only, 1, {"create": lambda service: requests.create(service, rounds)}),
        few(
            only,
            SLOTS,
            {
                "running": lambda service: requests.running(service, rounds),
                "pausing": lambda service: requests.pausing(service, max(5, rounds // 3)),
                "backlog": lambda service: crowds.backlog(service, 1000, bare_rate),
            },
        ),
        many(rounds, only, given.jobs),
    ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())

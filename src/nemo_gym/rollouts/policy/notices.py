"""What is said once and then only counted: retries of requests, and how they were adapted to the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class Retries:
    """Reports the first retry of each kind in full and counts the others, so that no retry is silent."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self.counts: Counter[str] = Counter()
        """Retried requests by failure kind."""

    def report(self, message: str) -> None:
        """Say something about all requests to come."""
        self._report(message)

    def note(self, kind: str, message: str, delay: float) -> None:
        """Note one retry that follows after ``delay`` seconds."""
        self.counts[kind] += 1
        if self.counts[kind] == 1:
            what = f"retrying in {delay:.1f} s ({kind}): {message.rstrip('.')}"
            self._report(f"{what}. Further retries of this kind are counted.")

    @property
    def total(self) -> int:
        """All retried requests."""
        return self.counts.total()

    def sentence(self) -> str | None:
        """All retries in one sentence, most frequent first; ``None`` when there were none."""
        if not self.counts:
            return None
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in self.counts.most_common())
        times = "a request was" if self.total == 1 else f"{self.total:,} requests were"
        return f"{times} sent again ({kinds})."

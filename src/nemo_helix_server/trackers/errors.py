"""What can go wrong with a tracker; a job never sees it as anything but a warning."""

from __future__ import annotations


class TrackerError(Exception):
    """Something could not be published to a tracker; the message is one sentence."""


class TrackerRefusedError(TrackerError):
    """The tracker, or its library, said no; the publisher goes on."""


class UnreachableError(TrackerError):
    """The publisher itself could not be started, ended, or did not answer in time."""


class OffError(TrackerError):
    """The tracker cannot be used as things are set up: there is no address, no key or no library."""

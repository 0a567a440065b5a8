"""What is added to an error of the client: which request it was, and in which workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nemo_helix_plugin.config.contexts import Resolved


@contextmanager
def explained(context: Resolved) -> Iterator[None]:
    """Around calls of the client: errors leave with notes, which `main` prints below the sentence."""
    from nemo_helix_plugin.client import errors

    try:
        yield
    except errors.NotFoundError as error:
        error.add_note(f"asked: {error.request}, workspace '{context.workspace}'.")
        raise
    except errors.InternalServerError as error:
        error.add_note(f"asked: {error.request}; the service's log says more.")
        raise
    except UnicodeEncodeError:
        raise
    except ValueError as error:  # of the client, for a name that cannot stand in an address
        raise click.UsageError(f"{error}.") from None

"""What can be asked of the Jobs service by any caller: the API and commands are thin shells around it."""

from __future__ import annotations

from nemo_helix_server.service.acting import Acting
from nemo_helix_server.service.creating import Creating
from nemo_helix_server.service.reporting import Reporting
from nemo_helix_server.service.showing import Showing


class JobsService(Creating, Acting, Showing, Reporting):
    """Jobs, as their users see them. Every ``name`` is a name or an id; every call is one or two store units.

    Answers are plain values in the shape of the plugin's response types, with moments as ISO 8601 text.
    Errors are those of `nemo_helix_server.errors`. `wake` is called after each write that the controller
    should act upon; it returns at once.
    """

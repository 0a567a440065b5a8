"""The command-line program `gym`."""

import gc

_NEW_OBJECTS = 80_000
"""After how many new objects cycles are looked for: nearly all that a start makes is there to stay."""

gc.set_threshold(_NEW_OBJECTS)  # here, before anything else of the program is imported

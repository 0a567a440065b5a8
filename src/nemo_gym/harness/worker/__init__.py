"""What runs in the interpreter that has lm-eval: it makes rows, grades answers and adds up.

Nothing of it is imported by the collector, which talks to it in lines of JSON.
"""

import gc

_NEW_OBJECTS = 200_000
"""After how many new objects cycles are looked for: lm-eval brings 1,500 modules, which are there to stay."""

gc.set_threshold(_NEW_OBJECTS)  # here, before anything of lm-eval is imported

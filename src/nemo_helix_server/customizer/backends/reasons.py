"""Reasons and rules that several backends share."""

from __future__ import annotations

from nemo_helix_server.customizer.support import Rule

NO_DEPLOYMENT = "this service deploys no models"
ONE_NODE = "the executor of the profile gives a step one node"
DATA_PARALLEL = "the engines here train data-parallel only"
NEEDS_GPU = "the machine has no GPU"
FOREIGN_CODE = "it runs code that comes with the model, which needs a token of the role admin"


def parallelism(block: str) -> tuple[Rule, ...]:
    """What is supported of a block of parallelism: data-parallel processes, on the nodes that a step gets."""
    return (
        Rule(f"{block}.num_nodes", (1,), ONE_NODE, on="one node"),
        Rule(f"{block}.tensor_parallel_size", (1,), DATA_PARALLEL),
        Rule(f"{block}.pipeline_parallel_size", (1,), "pipeline parallelism is done by no engine here"),
        Rule(f"{block}.context_parallel_size", (1,), DATA_PARALLEL),
        Rule(f"{block}.expert_parallel_size", (None, 1), DATA_PARALLEL),
        Rule(f"{block}.sequence_parallel", (False,), DATA_PARALLEL),
    )

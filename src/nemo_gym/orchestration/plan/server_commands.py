"""The command lines of model servers, one for each node of a server, as vLLM and SGLang document them.

What is only known when the job runs is a word in braces in them: ``{port}``, the port of this server, and for
a server of several nodes ``{head}``, the address of its first node, and ``{rpc_port}``, a free port there.
"""

from __future__ import annotations

import shlex

from nemo_gym.orchestration.config.schema import ModelService, SglangService, VllmService

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - servers on other nodes than the driver's ask for the job's key
_SGLANG = (
    'import os, runpy, sys; sys.argv += ["--api-key", os.environ["NEMO_GYM_SERVICE_API_KEY"]]; '
    'runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)'
)
"""``python3 -m sglang.launch_server``, which takes its key from no variable; arguments are read by all."""


def arguments(service: ModelService, *, rank: int = 0, host: str = LOOPBACK) -> list[str]:
    """The command for the node of that rank among those of one server; the first one answers requests."""
    if isinstance(service, VllmService):
        return _vllm(service, rank, host) + shlex.split(service.extra_args)
    assert isinstance(service, SglangService)
    return _sglang(service, rank, host) + shlex.split(service.extra_args)


def _vllm(service: VllmService, rank: int, host: str) -> list[str]:
    words = ["vllm", "serve", service.model]
    if rank == 0:
        words += ["--host", host, "--port", "{port}"]
    if service.served_model_name is not None:
        words += ["--served-model-name", service.served_model_name]
    words += ["--tensor-parallel-size", str(service.tensor_parallel_size)]
    words += _above_one("--pipeline-parallel-size", service.pipeline_parallel_size)
    words += _above_one("--data-parallel-size", service.number_of_instances)
    if service.nodes > 1:
        words += (
            _vllm_instances(service, rank) if service.number_of_instances > 1 else _vllm_model(service, rank)
        )
    return words + (["--trust-remote-code"] if service.trust_remote_code else [])


def _vllm_instances(service: VllmService, rank: int) -> list[str]:
    """Some instances on each node, all behind the first one's server."""
    local = service.number_of_instances // service.nodes
    words = ["--data-parallel-size-local", str(local)]
    if rank:
        words += ["--data-parallel-start-rank", str(rank * local)]
    words += ["--data-parallel-address", "{head}", "--data-parallel-rpc-port", "{rpc_port}"]
    return words + (["--headless"] if rank else [])


def _vllm_model(service: VllmService, rank: int) -> list[str]:
    """One instance that spans the nodes."""
    words = ["--nnodes", str(service.nodes), "--node-rank", str(rank)]
    words += ["--master-addr", "{head}", "--master-port", "{rpc_port}"]
    return words + (["--headless"] if rank else [])


def _sglang(service: SglangService, rank: int, host: str) -> list[str]:
    words = ["python3", "-c", _SGLANG, "--model-path", service.model]
    words += ["--host", host if rank == 0 else LOOPBACK, "--port", "{port}"]
    if service.served_model_name is not None:
        words += ["--served-model-name", service.served_model_name]
    words += ["--tp-size", str(service.tensor_parallel_size)]
    words += _above_one("--pp-size", service.pipeline_parallel_size)
    words += _above_one("--dp-size", service.number_of_instances)
    if service.nodes > 1:
        words += ["--nnodes", str(service.nodes), "--node-rank", str(rank)]
        words += ["--dist-init-addr", "{head}:{rpc_port}"]
    return words + (["--trust-remote-code"] if service.trust_remote_code else [])


def _above_one(option: str, size: int) -> list[str]:
    return [option, str(size)] if size > 1 else []

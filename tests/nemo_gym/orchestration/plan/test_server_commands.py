"""The command lines of model servers, as the projects document them.

The words of vLLM are those of its pages "Data Parallel Deployment" (docs/serving/data_parallel_deployment.md)
and "Parallelism and Scaling", section "Running vLLM with MultiProcessing"
(docs/serving/parallelism_scaling.md), and of the options of its parser in 0.32.0
(vllm/engine/arg_utils.py); those of SGLang are of its page "Server Arguments"
(docs/advanced_features/server_arguments.md) and of the fields of its arguments in 0.5.23
(sglang/srt/arg_groups/fields/parallel.py, model.py, serving.py).
"""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.orchestration.config.schema import SglangService, VllmService
from nemo_gym.orchestration.plan.server_commands import EVERYWHERE, arguments


def vllm(**values: Any) -> VllmService:
    return VllmService(type="vllm", model="$MODEL", **values)


def sglang(**values: Any) -> SglangService:
    return SglangService(type="sglang", model="$MODEL", **values)


def words(text: str) -> list[str]:
    return text.split()


def test_vllm_on_one_node():
    at = "--host 127.0.0.1 --port {port}"
    assert arguments(vllm()) == words(f"vllm serve $MODEL {at} --tensor-parallel-size 1")
    instances = vllm(number_of_instances=4, tensor_parallel_size=2)
    wanted = f"vllm serve $MODEL {at} --tensor-parallel-size 2 --data-parallel-size 4"
    assert arguments(instances) == words(wanted)


def test_vllm_with_instances_on_two_nodes():
    """The documented example: ranks 0 and 1 on the head node, 2 and 3 on the second one."""
    service = vllm(number_of_instances=4, nodes=2)
    meet = "--data-parallel-address {head} --data-parallel-rpc-port {rpc_port}"
    assert arguments(service, rank=0, host=EVERYWHERE) == words(
        "vllm serve $MODEL --host 0.0.0.0 --port {port} --tensor-parallel-size 1 --data-parallel-size 4 "
        f"--data-parallel-size-local 2 {meet}"
    )
    assert arguments(service, rank=1) == words(
        "vllm serve $MODEL --tensor-parallel-size 1 --data-parallel-size 4 --data-parallel-size-local 2 "
        f"--data-parallel-start-rank 2 {meet} --headless"
    )


def test_vllm_with_one_model_over_two_nodes():
    """The documented example: two nodes of eight GPUs, tensor parallel within, pipeline parallel across."""
    service = vllm(
        tensor_parallel_size=8, pipeline_parallel_size=2, nodes=2, extra_args="--max-model-len 4096"
    )
    sizes = "--tensor-parallel-size 8 --pipeline-parallel-size 2 --nnodes 2"
    meet = "--master-addr {head} --master-port {rpc_port}"
    assert arguments(service, rank=0, host=EVERYWHERE) == words(
        f"vllm serve $MODEL --host 0.0.0.0 --port {{port}} {sizes} --node-rank 0 {meet} --max-model-len 4096"
    )
    assert arguments(service, rank=1) == words(
        f"vllm serve $MODEL {sizes} --node-rank 1 {meet} --headless --max-model-len 4096"
    )


def test_sglang_on_one_node_and_on_two():
    assert arguments(sglang(served_model_name="m", trust_remote_code=True))[3:] == words(
        "--model-path $MODEL --host 127.0.0.1 --port {port} --served-model-name m --tp-size 1 "
        "--trust-remote-code"
    )
    service = sglang(tensor_parallel_size=4, pipeline_parallel_size=2, nodes=2)
    sizes = "--tp-size 4 --pp-size 2 --nnodes 2"
    assert arguments(service, rank=0, host=EVERYWHERE)[3:] == words(
        f"--model-path $MODEL --host 0.0.0.0 --port {{port}} {sizes} --node-rank 0 "
        "--dist-init-addr {head}:{rpc_port}"
    )
    assert arguments(service, rank=1)[3:] == words(
        f"--model-path $MODEL --host 127.0.0.1 --port {{port}} {sizes} --node-rank 1 "
        "--dist-init-addr {head}:{rpc_port}"
    )


def test_sglang_gets_its_key_without_an_argument_that_others_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Its documented command is ``python3 -m sglang.launch_server``; a stand-in says what that would see."""
    package = tmp_path / "sglang"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("NEMO_GYM_SERVICE_API_KEY", "sesame")
    python, option, program, *rest = arguments(sglang())
    assert (python, option) == ("python3", "-c")
    monkeypatch.setattr(sys, "argv", ["-c", *rest])
    monkeypatch.setattr(
        runpy,
        "run_module",
        lambda name, **_: runpy.run_path(str(tmp_path / name.replace(".", "/")) + ".py", run_name="__main__"),
    )
    exec(program, {})
    assert capsys.readouterr().out == f"__main__ {[*rest, '--api-key', 'sesame']}\n"
    assert "sesame" not in " ".join([program, *rest])

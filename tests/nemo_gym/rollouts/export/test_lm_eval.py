"""Files of lm-evaluation-harness, read back with its own functions."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.engines import harness_python
from tests.nemo_gym.rollouts.export.outputs import exported
from tests.result_rows import result, source

from nemo_gym.rollouts.export.lm_eval import write_lm_eval
from nemo_gym.rollouts.output.rows import encode_row

READ = """
import json, sys
from pathlib import Path
from lm_eval.utils import get_latest_filename, get_results_filenames, get_sample_results_filenames, make_table
folder = Path(sys.argv[1])
names = [str(path) for path in folder.iterdir()]
results = json.loads(Path(get_latest_filename(get_results_filenames(names))).read_text())
samples = get_sample_results_filenames(names)
rows = [json.loads(line) for name in samples for line in Path(name).read_text().splitlines()]
print(json.dumps([make_table(results), len(samples), [row["reward"] for row in rows]]))
"""


def test_results_and_samples_have_the_fields_of_the_harness(tmp_path: Path) -> None:
    written = write_lm_eval([exported(tmp_path / "a"), exported(tmp_path / "b", "gpqa")], tmp_path / "out")
    results, samples = written
    assert results.parent == tmp_path / "out" / "org__model-1"
    assert samples.name.startswith("samples_sums_")
    found = json.loads(results.read_text())
    assert found["results"]["sums"]["reward,none"] == 0.5
    assert set(found["results"]) == {"sums", "gpqa"}
    first, second, third = (json.loads(line) for line in samples.read_text().splitlines())
    assert (first["doc_id"], first["target"], first["reward"]) == (0, "0", 0.5)
    assert first["resps"] == [["thought of 0", "7"]]
    assert first["filtered_resps"] == ["0", "7"]
    assert first["doc"]["question"] == "What is 0 + 0?"
    assert (second["reward"], third["reward"]) == (0.5, 0.5)


@pytest.mark.slow
@pytest.mark.services
def test_the_harness_reads_them(tmp_path: Path) -> None:
    write_lm_eval([exported(tmp_path / "a")], tmp_path / "out")
    argv = [str(harness_python()), "-c", READ, str(tmp_path / "out" / "org__model-1")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    table, files, rewards = json.loads(done.stdout.splitlines()[-1])
    assert "|sums |" in table
    assert "|reward|↑  |  0.5|" in table
    assert (files, rewards) == (1, [0.5, 0.5, 0.5])


def test_texts_that_were_scored_are_written_as_the_harness_writes_them(tmp_path: Path) -> None:
    output = exported(tmp_path / "a")
    texts = {"rolling": False, "contexts": [[1]], "pairs": [[0, [1]], [0, [2]]], "texts": [" Rome", " Paris"]}
    row = {**source(0), "lm_eval": {"task": "t"}, "target": "1", "likelihoods": texts}
    row |= {**result(), "_ng_agent_fields": ["lm_eval_likelihoods"]}
    row |= {"lm_eval_likelihoods": [[-3.5, False], [-1.25, True]]}
    output.paths.output.write_bytes(encode_row(0, 0, row) + b"\n")
    _, samples = write_lm_eval([output], tmp_path / "out")
    found = json.loads(samples.read_text())
    assert found["arguments"]["gen_args_1"] == {"arg_0": "What is 0 + 0?", "arg_1": " Paris"}
    assert found["resps"] == [[[-3.5, False]], [[-1.25, True]]]
    assert found["filtered_resps"] == [[-3.5, False], [-1.25, True]]

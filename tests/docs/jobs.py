"""How the pages about the Jobs service, its jobs and its engines are followed."""

from __future__ import annotations

import json
import shutil
import subprocess

from tests import engines, trained_models
from tests.docs import worlds
from tests.docs.pages import ROOT, Page, merged

NAMED = "automodel-a1b2c3d4e5f6"
MODELS = ROOT / "tests" / "nemo_engines" / "export" / "models_program.py"


def connect(page: Page) -> None:
    url = worlds.jobs_service(page, context=False)
    page.type(f"nemo workspaces create team-a --base-url {url}")
    page.replaced["https://jobs.example.org"] = url
    page.run()
    page.run()
    page.environ["LAB_TOKEN"] = page.said.split()[-1]
    page.run()


def contexts(page: Page) -> None:
    page.environ["LAB_TOKEN"] = "token"
    page.replaced["--prune-orphans"] = "--prune-orphans --yes"
    page.save("contexts.yaml")
    page.environ["NHX_CONFIG_FILE"] = str(page.folder / "contexts.yaml")
    page.type("nemo config view --all-contexts")
    assert "https://jobs.example.org" in page.said
    del page.environ["NHX_CONFIG_FILE"]
    page.run()


def run_the_service(page: Page) -> None:
    page.environ["NHX_PORT"] = worlds.free_port()
    page.serve("nemo services: http://127.0.0.1:")
    worlds.jobs_service(page)
    page.run()
    assert "nothing runs any more" in page.said
    page.save("settings.yaml")
    page.run()
    assert "ok       slots: " in page.said
    page.replaced["nemo services run --host"] = "nemo services run --settings settings.yaml --host"
    page.environ |= {"NHX_DATA_DIR": str(page.folder / "other"), "NHX_PORT": worlds.free_port()}
    page.serve("nemo services: http://")
    del page.environ["NHX_DATA_DIR"]
    page.run()
    assert page.said.count("/pages/enter?code=") == 2
    worlds.job(page, worlds.training("tune"), "active")
    page.run()
    assert "first try" in page.said
    page.save("evaluations.yaml")
    page.save("pages.yaml")
    worlds.jobs_service(page, "--settings", "pages.yaml", "--data-dir", "behind-a-proxy", context=False)
    page.run()
    assert "[Service]" in page.said


def use_secrets(page: Page) -> None:
    worlds.jobs_service(page)
    page.environ["HF_TOKEN"] = "hf_secret"
    page.run()
    body = merged({"name": "with-secret", "source": "me", "spec": {}}, page.yaml())
    page.write("train.py", "import os; print('length', len(os.environ['HF_TOKEN']))\n")
    body["platform_spec"]["steps"][0]["executor"]["command"][1] = str(page.folder / "train.py")
    page.write("job.json", json.dumps(body))
    page.type("nemo jobs create --input-file job.json --watch")
    assert "length 9" in page.said


def keep_and_free_storage(page: Page) -> None:
    settings = page.left.pop(1)
    page.write("settings.yaml", settings.text)
    worlds.jobs_service(page, "--settings", "settings.yaml")
    worlds.paused(page)
    page.run()
    page.replaced["ckpt-90-0a1b2c3d4e"] = worlds.checkpoint(page)
    page.run()


def maintain(page: Page) -> None:
    worlds.jobs_service(page)
    worlds.job(page, worlds.training(), "active", step=31)
    page.run()
    assert "nothing runs any more" in page.said
    page.type("nemo workspaces create team-a")
    worlds.job(page, worlds.training("another"), "active", step=1, workspace="team-a")
    page.run()
    worlds.reached(page, "another", "paused", workspace="team-a")
    page.run()
    assert '"my-training"' in page.said
    page.environ |= {"NHX_DATA_DIR": str(page.folder / "put-back"), "NHX_PORT": worlds.free_port()}
    page.serve("nemo services: http://127.0.0.1:")


def upgrade(page: Page) -> None:
    worlds.jobs_service(page)
    page.run()
    assert "jobs: none" in page.said
    worlds.job(page, worlds.training(), "active", step=31)
    page.run()
    assert "nothing runs any more" in page.said


def write_a_training_loop(page: Page) -> None:
    python = worlds.engine(page, "trl")
    worlds.jobs_service(page)
    page.save("train.py", "python")
    first, second = page.next("sh"), page.next("sh")
    page.type(first.script + second.script)
    page.replaced |= {"/path/to/engine/python": python, "/path/to": str(page.folder)}
    page.save("job.yaml")
    page.run()
    assert "completed" in page.said


def python_sdk(page: Page) -> None:
    worlds.engine(page, "trl")
    worlds.jobs_service(page)
    worlds.job(page, worlds.training(NAMED, steps=400, fail_at=60, fail_times=0), "active", step=31)
    program = page.next("python").text
    pause, _, rest = program.partition("    client.jobs.update_job_control")
    page.write("pause.py", pause)
    page.type("python pause.py")
    worlds.reached(page, NAMED, "paused")
    page.write(
        "resume.py", program.replace(f'    client.jobs.pause_job(name="{NAMED}", workspace="default")\n', "")
    )
    page.type("python resume.py")
    assert rest
    assert page.said.startswith("resuming")
    page.type(f"nemo files upload base {engines.tiny_model()} && nemo models register base --fileset base")
    page.write("pairs/train.jsonl", '{"prompt": "1?", "chosen": "1", "rejected": "2"}\n')
    page.type("nemo files upload pairs pairs")
    page.save("tune.py", "python")
    page.type("python tune.py")
    page.save("watch.py", "python")
    page.type("python watch.py")
    assert "completed" in page.said
    page.save("notebook.py", "python")
    page.type("python notebook.py")
    assert "completed None" in page.said


def move_from_nemo(page: Page) -> None:
    shutil.copy(ROOT / "examples" / "quickstart.yaml", page.folder / "submit.yaml")
    page.run()
    assert "output_path" in page.said
    url = worlds.jobs_service(page, context=False)
    page.replaced["http://localhost:8080"] = url
    page.run()
    assert '"backend": "rl"' in page.said


def try_several_settings(page: Page) -> None:
    worlds.engine(page, "trl")
    worlds.jobs_service(page)
    page.type(f"nemo files upload base {engines.tiny_model()} && nemo models register base --fileset base")
    engines.preference_rows(page.write("pairs/train.jsonl", ""))
    page.type("nemo files upload pairs pairs")
    page.save("job.json", "json")
    page.run()
    page.run()
    assert "rates-3" in page.said
    page.run()
    assert page.said.count("cancel") >= 3
    page.run()
    assert "rates-1" in page.said


def track_experiments(page: Page) -> None:
    worlds.engine(page, "trackers")
    page.run()
    body = json.loads(page.next("json").text)
    worlds.jobs_service(page)
    page.environ["KEY"] = "k" * 40
    page.type("nemo secrets create wandb-key --value host:KEY")
    model = engines.tiny_model()
    page.write("pairs.jsonl", '{"prompt": "1?", "chosen": "1", "rejected": "2"}\n')
    spec = {"model": str(model), "dataset": str(page.folder / "pairs.jsonl"), "training": {"type": "dpo"}}
    page.write("job.json", json.dumps({**spec, **body}))
    page.type("nemo customization rl --job-json job.json --json 2> log")
    made = json.loads(page.said)
    assert made["spec"]["integrations"]["wandb"]["project"] == "summaries"
    page.type(f"nemo jobs cancel {made['name']}")
    worlds.reached(page, made["name"], "cancelled")


def evaluate_while_training(page: Page) -> None:
    worlds.engine(page, "trl")
    worlds.jobs_service(page)
    page.write("rows/train.jsonl", '{"prompt": "1?", "chosen": "1", "rejected": "2"}\n' * 8)
    page.write("rows/validation.jsonl", '{"prompt": "3?", "chosen": "3", "rejected": "2"}\n')
    fields = json.loads(page.next("json").text)
    fields["early_stopping"] |= {"patience": 1, "min_change": 1e3}
    training = {"type": "dpo", "batch_size": 2, "max_steps": 40, "val_check_interval": 2}
    spec = {"model": str(engines.tiny_model()), "dataset": str(page.folder / "rows"), "training": training}
    asks = json.loads(page.next("json").text)["eval"] | {"every": 4, "limit": 3, "max_new_tokens": 4}
    page.write("job.json", json.dumps({**spec, "name": "sums", **fields, "eval": asks}))
    page.type("nemo customization rl --job-json job.json --wait")
    page.replaced["NAME"] = "sums"
    page.run()
    assert '"eval_arithmetic_low"' in page.said
    assert '"prompt": "What is 17 + 25?"' in page.said
    assert '"stopped_at": 4' in page.said
    assert '"published": true' in page.said
    assert page.said.count('"best": true') == 1


def serve_a_tuned_model(page: Page) -> None:
    python = worlds.engine(page, "unsloth")
    worlds.few_questions(page)
    worlds.jobs_service(page)
    made = page.folder / "made"
    made.mkdir()
    environ = {**page.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests' / 'nemo_engines'}"}
    subprocess.run([python, MODELS, made], env=environ, check=True, capture_output=True, timeout=300)
    page.type("nemo models upload sums made/adapter")
    page.replaced |= {
        "BASE_FOLDER": str(made / "llama"),
        "MODEL.gguf": str(made / "qwen2.gguf"),
        " FOLDER": " unpacked",
    }
    page.environ["engine"] = python
    page.run()
    page.run()
    assert "4/4" in page.said
    page.run()
    assert (page.folder / "unpacked" / "model.safetensors").exists()


def use_a_trained_model(page: Page) -> None:
    worlds.engine(page, "trl")
    page.environ["XDG_CACHE_HOME"] = engines.shared_engines(page.folder / "cache")
    worlds.few_questions(page)
    worlds.jobs_service(page)
    made = trained_models.make(page.folder / "made")
    page.type("nemo models upload base made/base")
    page.type("nemo files upload sums made/adapter")
    page.type("nemo models register sums --fileset sums --kind adapter --base-model default/base")
    page.run()
    assert "What is 7 + 5?" in page.said
    assert json.loads(page.said.splitlines()[-2])["answers"][0]["answer"] == made.answers["adapter"][0]
    page.run()
    assert "4 of 4 expected rollouts" in page.said
    manifest = json.loads((page.folder / "sums_manifest.json").read_text())
    assert manifest["identity"]["generation"]["policy_model_digest"].startswith("sha256:")
    page.run()
    assert "4/4" in page.said


def train_on_chats(page: Page) -> None:
    """The first training of the recipes is done for real, with a smaller model."""
    worlds.engine(page, "unsloth")
    worlds.jobs_service(page)
    tiny = str(engines.tiny_model())
    page.replaced |= {
        "-o cook --wait": "-o cook --backend unsloth --print-spec",
        "first-training --wait": f"first-training --backend unsloth --model {tiny} -o cook --wait",
        "--spec job.yaml": "--spec job.yaml --backend unsloth",
        "--model HuggingFaceTB/SmolLM2-135M-Instruct": f"--model {tiny} --backend unsloth",
    }
    page.run()
    page.run()
    assert "learned" in page.said
    page.run()
    page.run()
    assert "completed" in page.said
    page.type("nemo models get cook --json")
    page.save("job.yaml")
    page.run()
    assert "learning_rate: 0.0001" in page.said


def choose_what_is_learned(page: Page) -> None:
    page.write("mine.jinja", "{{ messages }}")
    page.run()
    assert "default/base" in page.said
    page.save("job.yaml")
    page.type("nemo customization sft --spec job.yaml --backend unsloth --print-spec")
    assert "trl-lib/Capybara: 1.0" in page.said
    page.run()
    assert "chat_template" in page.said
    page.run()
    assert "default/cook" in page.said


READERS = {
    "docs/how-to/choose-what-is-learned.md": choose_what_is_learned,
    "docs/tutorial/train-on-chats.md": train_on_chats,
    "docs/how-to/connect.md": connect,
    "docs/how-to/evaluate-while-training.md": evaluate_while_training,
    "docs/how-to/keep-and-free-storage.md": keep_and_free_storage,
    "docs/how-to/maintain.md": maintain,
    "docs/how-to/upgrade.md": upgrade,
    "docs/how-to/run-the-service.md": run_the_service,
    "docs/how-to/serve-a-tuned-model.md": serve_a_tuned_model,
    "docs/how-to/track-experiments.md": track_experiments,
    "docs/how-to/use-a-trained-model.md": use_a_trained_model,
    "docs/how-to/use-secrets.md": use_secrets,
    "docs/how-to/write-a-training-loop.md": write_a_training_loop,
    "docs/reference/contexts.md": contexts,
    "docs/reference/python-sdk.md": python_sdk,
    "docs/how-to/move-from-nemo.md": move_from_nemo,
    "docs/how-to/try-several-settings.md": try_several_settings,
}
"""Page -> how it is followed."""

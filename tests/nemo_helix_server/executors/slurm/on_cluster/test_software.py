"""What a start runs in, as its node finds it out."""

import sys

from nemo_helix_server.executors.environment_digest import Environments
from nemo_helix_server.executors.slurm.on_cluster.software import software
from nemo_helix_server.jobs import stamps


def found(tmp_path, *, argv=(sys.executable, "-m", "x"), image=None, code="c1"):
    container = image and {"runtime": "pyxis", "image": str(image), "mounts": []}
    return software({"argv": argv, "container": container}, {}, code, tmp_path / "known")


def test_an_environment_is_its_interpreter_its_packages_and_our_sources(tmp_path):
    first = found(tmp_path)
    assert first["name"] == f"the environment of {sys.executable}"
    assert first["digest"].startswith("sha256:")
    assert found(tmp_path) == first
    assert found(tmp_path, code="c2")["digest"] != first["digest"]
    assert found(tmp_path, argv=("/nowhere/python",))["digest"] is None


def test_the_same_environment_on_the_service_s_machine_is_no_change(tmp_path):
    here = Environments().digest((sys.executable,), {})
    there = found(tmp_path)["digest"]
    details = {"image_digest_at_save": here}
    assert stamps.image(details, there, "x")["image_digest_warning"] is None
    assert stamps.image({"image_digest_at_save": there}, here, "x")["image_digest_warning"] is None
    newer = found(tmp_path, code="c2")["digest"]
    assert (
        "x changed since" in stamps.image({"image_digest_at_save": there}, newer, "x")["image_digest_warning"]
    )


def test_a_new_package_is_another_environment(tmp_path):
    venv = tmp_path / "venv"
    packages = venv / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "pyvenv.cfg").touch()
    python = venv / "bin" / "python"
    python.symlink_to(sys.executable)
    before = found(tmp_path, argv=(str(python),))
    (packages / "torch-2.dist-info").mkdir()
    assert found(tmp_path, argv=(str(python),))["digest"] != before["digest"]


def test_an_image_file_is_known_by_its_content(tmp_path):
    image = tmp_path / "trl.sqsh"
    image.write_bytes(b"one")
    first = found(tmp_path, image=image)
    assert first["name"] == str(image)
    assert first["digest"].startswith(f"{image}@sha256:")
    assert found(tmp_path, image=image, code="c2") == first
    image.write_bytes(b"two, under the same name")
    assert found(tmp_path, image=image)["digest"] != first["digest"]


def test_an_image_of_a_registry_is_known_where_its_name_says_it(tmp_path):
    digest = f"sha256:{'a' * 64}"
    assert found(tmp_path, image=f"nvcr.io/nemo@{digest}")["digest"].endswith(f"@{digest}")
    assert found(tmp_path, image="nvcr.io/nemo:latest")["digest"] is None

"""What goes into the distribution: everything that ships, and nothing that was only lying there."""

import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]


def tracked(folder):
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, check=True)
    return {name for name in listed.stdout.decode().split("\0") if name}


def test_every_file_of_the_shipped_benchmarks_is_in_the_distribution_and_no_prepared_data():
    shipped = {name: f"nemo_gym/shipped/{name}" for name in tracked("benchmarks")}
    assert WHEEL["force-include"] == {**shipped, "docs": "nemo_cli/docs"}


def test_every_package_is_in_the_distribution():
    packages = {f"src/{path.parent.name}" for path in (ROOT / "src").glob("*/__init__.py")}
    assert set(WHEEL["packages"]) == packages


def test_both_programs_are_installed():
    assert PROJECT["project"]["scripts"] == {
        "gym": "nemo_gym.cli.main:main",
        "nemo": "nemo_helix_plugin.cli.main:main",
    }


def test_templates_and_static_files_of_pages_are_tracked_and_so_in_the_distribution():
    there = {
        path.relative_to(ROOT).as_posix()
        for package in ("nemo_pages", "nemo_gym", "nemo_helix_server")
        for path in (ROOT / "src" / package).rglob("*")
        if path.suffix in (".html", ".css", ".js", ".svg")
    }
    assert {f"src/nemo_pages/{name}" for name in ("layout/base.html", "static/pages.css")} < there
    assert there <= tracked("src")

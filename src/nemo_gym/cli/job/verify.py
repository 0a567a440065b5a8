"""`gym job verify`: a certificate that every expected rollout is there exactly once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option

if TYPE_CHECKING:
    from nemo_gym.orchestration.results.verify import Verification, Verified


@click.command(short_help="Certify that results are whole.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("benchmark", required=False, shell_complete=completing.benchmarks_of_run)
@json_option
def verify(name: str, benchmark: str | None, as_json: bool) -> int:
    """Certify the results of a submission: every expected rollout is there exactly once, none torn or
    damaged, and the digests of manifest, materialized inputs and configuration match.

    ID is a full id, the unique beginning of one, `latest`, or a run directory (a fetched one too). Of a run
    on another machine, results and records are fetched into a temporary folder that is removed again. Nothing
    else is written. Ends with 1 when anything is wrong, and says what.
    """
    from nemo_gym.errors import EXIT_DONE, EXIT_ERROR
    from nemo_gym.orchestration.records import remote_copy
    from nemo_gym.orchestration.results.verify import verify as verify_submission

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    bring = remote_copy.for_certificate(benchmark)
    with remote_copy.RemoteCopy(bring, report=report, why="results and records are fetched") as near:
        found = verify_submission(near.find(name), benchmark)
    click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False) if as_json else _text(found))
    return EXIT_DONE if found.valid else EXIT_ERROR


def _text(found: Verification) -> str:
    lines = [f"{found.gym_job_id}  {found.run_dir}"]
    lines += [f"  wrong: {problem}" for problem in found.problems]
    for benchmark in found.benchmarks:
        lines += ["", *_benchmark(benchmark)]
    lines += ["", "CERTIFIED: complete and intact." if found.valid else "NOT CERTIFIED: see above."]
    return "\n".join(lines)


def _benchmark(verified: Verified) -> list[str]:
    certificate = verified.certificate
    lines = [f"{verified.benchmark}: {'certified' if verified.valid else 'not certified'}"]
    if certificate is not None and certificate.expected is not None:
        lines.append(
            f"  expected {certificate.expected:,}, present once {certificate.present:,}, "
            f"missing {certificate.missing:,}, duplicated {certificate.duplicates:,}, "
            f"damaged {certificate.damaged:,}, torn bytes {certificate.torn_bytes:,}, "
            f"unplanned {certificate.strays:,}"
        )
        if certificate.until is not None:
            lines.append(f"  until {certificate.until['sentence']}; seed {certificate.until['seed']}")
            lines.append(f"  not needed {certificate.not_needed:,}")
        lines += [
            f"  {name.replace('_', ' '):<19} sha256 {digest}" for name, digest in certificate.digests.items()
        ]
    lines += [f"  wrong: {problem}" for problem in verified.problems]
    return lines + [f"  note: {note}" for note in verified.notes]

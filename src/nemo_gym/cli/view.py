"""`gym view`: evaluations in a browser, read-only."""

from __future__ import annotations

from pathlib import Path

import click

from nemo_gym.errors import ConfigError, UsageError


@click.command(short_help="Show evaluations in a browser, read-only.")
@click.argument("folders", nargs=-1, metavar="[DIR]...", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on; any free one unless given.",
)
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option(
    "--root-path",
    metavar="PATH",
    default="",
    help="Path below which a proxy shows the pages, such as /user/ann/proxy/8123.",
)
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the pages as files into a new folder, and end.",
)
def view(folders: tuple[Path, ...], port: int, host: str, root_path: str, bundle: Path | None) -> None:
    """Serve pages of evaluations on this machine until Ctrl-C.

    DIR is a run directory, or a folder that holds some; without any, all submissions of the local index are
    shown. The address is printed on stdout, with a key that lets a browser in. Nothing is changed, and no
    service or database is needed.
    """
    from nemo_gym.yaml_files import holds_rows

    for folder in folders:
        if folder.is_file() and not holds_rows(folder):
            raise UsageError(f"{folder} is a file that holds no rollouts; name a run directory.")
    try:
        from nemo_gym.pages import serving
    except ModuleNotFoundError as error:
        raise ConfigError(f"pages need the package {error.name}: pip install 'nemo-baton[pages]'") from None
    if bundle is not None:
        serving.write(folders, bundle)
        return
    serving.serve(folders, host=host, port=port, root_path=root_path, announce=click.echo)

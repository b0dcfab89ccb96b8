"""Shared options, and options generated from the settings."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from splat_cli.cli.param_types import WholeRange
from splat_cli.config import REMOVED, REPLACED, SETTINGS, TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.config.setting import Setting
from splat_cli.errors import UsageError

if TYPE_CHECKING:
    from splat_cli.terminal.console import Display

Function = TypeVar("Function", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)

device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="Device to compute on; auto: the GPU if there is one.",
)

lpips_option = click.option(
    "--lpips",
    is_flag=False,
    flag_value="vgg",
    type=click.Choice(["vgg", "alex"]),
    metavar="[NETWORK]",
    help="Also LPIPS, with the network vgg (without a value) or alex; needs the extra `lpips`.",
)


spz_axes_option = click.option(
    "--spz-axes",
    type=click.Choice(["rub", "rdf"]),
    help="Axes of an .spz file that does not state them: rub (right, up, back: Niantic) or rdf (right, down, forward: "
    "SuperSplat, splat-transform).  [default: rub]",
)


def spz_axes_of(option: str | None, *files: Path) -> str:
    """The axes for `read_splats`. UsageError if the option is given without an .spz file."""
    if option and not any(file.suffix.lower() == ".spz" for file in files):
        raise UsageError(f"--spz-axes are axes of .spz files: leave it out for {', '.join(map(str, files))}")
    return (option or "rub").upper()


_FULL_HELP = "splat_cli.full_help"
"""Key in the metadata of a click context: whether the help shows everything."""
_NARROW_COLUMN = 22
"""Maximum width of the names of options in the short help."""


class RareOption(click.Option):
    """An option that only --help-all shows, like settings that are not `common`."""


cluster_option = click.option(
    "--cluster",
    cls=RareOption,
    metavar="CLUSTER",
    help="Train on the workers of a Dask cluster: tcp://HOST:PORT of its scheduler, local:N for N processes on this "
    "machine, or a .toml file for SLURM. Needs the extra `cluster`; see docs/clusters.md.",
)


def frames_option(help: str) -> Callable[[Function], Function]:
    """The option --frames: number of frames of a video."""
    return click.option("--frames", type=WholeRange(3, 100_000), metavar="N", default=200, show_default=True, help=help)


def server_options(function: Function) -> Function:
    """Add the options --host and --port of a viewer."""
    host = click.option(
        "--host",
        cls=RareOption,
        metavar="ADDRESS",
        default="127.0.0.1",
        show_default=True,
        help="Address the viewer listens on.",
    )
    port = click.option(
        "--port",
        cls=RareOption,
        type=WholeRange(1, 65535),
        metavar="N",
        default=8080,
        show_default=True,
        help="Port the viewer listens on; if taken, the next free one.",
    )
    return host(port(function))


def warn_of_idle(display: "Display", why: str, *names: str) -> None:
    """Warn of the options `names` that are on the command line and do nothing. why: such as "without --viewer"."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            value = context.params[option.name]
            display.warn(f"{[*option.opts, *option.secondary_opts][-1 if value is False else 0]} does nothing {why}")


_OPTIONS_OF_OTHERS = {
    **dict.fromkeys(("-s", "--source-path", "--data-dir", "--data", "--data-path"), "the argument SCENE"),
    **dict.fromkeys(("-m", "--model-path", "--result-dir", "--output-dir", "--export-path", "--output-path"), "-o"),
    **dict.fromkeys(("-r", "--resolution", "--data-factor", "--resize-factor"), "--downscale, or --max-size"),
    "--max-resolution": "--max-size",
    **dict.fromkeys(
        ("--iterations", "--iter", "--max-steps", "--max-num-iterations", "--total-steps", "--total-train-iters"),
        "--steps",
    ),
    **dict.fromkeys(
        ("--save-iterations", "--test-iterations", "--save-steps", "--eval-steps", "--export-every", "--eval-every"),
        "--save-at STEPS",
    ),
    **dict.fromkeys(("-w", "--white-background"), "--background white"),
    **dict.fromkeys(("--start-checkpoint", "--ckpt", "--load-dir"), "--resume RUN"),
    **dict.fromkeys(("--cap-max", "--max-cap"), "--max-splats"),
    **dict.fromkeys(("--llffhold", "--eval-split-every"), "--test-every"),
    "--refine-every": "--densify-interval",
    "--with-viewer": "--viewer",
    **{
        name: f"`splat sfm PHOTOS {name}`, before `splat train` of its scene"
        for name in ("--frames", "--matcher", "--matching", "--camera-model", "--one-camera")
    },
}
"""Options of `splat sfm` and of other trainers (3DGS's train.py, gsplat's simple_trainer.py, nerfstudio, Brush,
LichtFeld Studio), with hyphens instead of underscores -> names in this program."""


class SectionedCommand(click.Command):
    """A command whose help shows its options in sections.

    sections: the names of the sections' first options -> their titles. Options before them are under "Options".
    """

    def __init__(self, *args: Any, sections: dict[str, str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        title, rows = "Options", []
        for option in self.get_params(ctx):
            title = self._sections.get(option.name or "", title)
            if record := isinstance(option, click.Option) and option.get_help_record(ctx):
                rows.append((title, record))
        _write_sections(formatter, rows, col_max=30)


def _write_sections(formatter: click.HelpFormatter, rows: list[tuple[str, tuple[str, str]]], col_max: int) -> None:
    """Write rows (title of the section, (option, description)), by section."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for title, record in rows:
        sections.setdefault(title, []).append(record)
    for title, records in sections.items():
        with formatter.section(title):
            formatter.write_dl(records, col_max=col_max)


class SettingsCommand(click.Command):
    """A command with settings: --help shows the common options and the first two paragraphs, --help-all everything.

    Errors translate option names of other trainers.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        text = f"Show everything, with all {len(SETTINGS)} settings, and exit."
        self.params.append(
            click.Option(
                ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_full_help, help=text
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if reason := REMOVED.get(name.removeprefix("--").replace("-", "_")):
                raise click.UsageError(f"'{name}' was removed: {reason}; leave it out", ctx) from None
            if name not in _OPTIONS_OF_OTHERS:
                raise
            raise click.UsageError(f"No such option '{name}': here it is {_OPTIONS_OF_OTHERS[name]}", ctx) from None

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("\n\n".join(paragraphs if ctx.meta.get(_FULL_HELP) else paragraphs[:2]))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        is_full = ctx.meta.get(_FULL_HELP, False)
        rows = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is None or (isinstance(parameter, RareOption) and not is_full):
                continue
            declared = SETTINGS.get(parameter.name or "")
            title = declared.group if declared and is_full else "Options"
            rows.append((title, record))
        _write_sections(formatter, rows, col_max=30 if is_full else _NARROW_COLUMN)


def _show_full_help(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Callback of --help-all."""
    if value and not ctx.resilient_parsing:
        ctx.meta[_FULL_HELP] = True
        click.echo(ctx.get_help())
        ctx.exit()


def setting_options(*names: str, preset: str | None = None, for_city: bool = False) -> Callable[[Function], Function]:
    """Decorator that adds an option for each setting in `names`, by default for all. Options not given are None.

    preset: its values are shown in the help. for_city: the short help leaves out settings that do
    not work with `splat city`.
    """
    defaults = load_config(preset) if preset else TrainConfig()

    def decorate(function: Function) -> Function:
        chosen = names or tuple(SETTINGS)
        for flag, (name, values) in REPLACED.items():
            if name in chosen and True in values:
                text = f"Short for {SETTINGS[name].option} {values[True]}."
                function = click.option(
                    f"--{flag}", name, cls=RareOption, flag_value=values[True], default=None, help=text
                )(function)
        for declared in reversed([SETTINGS[name] for name in chosen]):
            is_common = declared.common and not (for_city and declared.not_in_city is True)
            function = _option(declared, getattr(defaults, declared.name), is_common)(function)
        return function

    return decorate


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options given on the command line: values other than None."""
    return {name: value for name, value in options.items() if value is not None}


class _Value(click.ParamType):
    """The value of a setting, as text."""

    def __init__(self, declared: Setting) -> None:
        self.declared = declared
        metavars = {int: "N", float: "X", str: declared.metavar, tuple: "N,N,..."}
        self.name = "|".join(declared.choices) or metavars[declared.kind]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.declared.parse(value)
        except UsageError:
            raise click.UsageError(f"{self.declared.option} {value}: expected {self.declared.expected}", ctx) from None


def _option(declared: Setting, default: Any, is_common: bool) -> Callable[[Function], Function]:
    shown = "" if default is None else f"default: {declared.show(default)}"  # otherwise the help text describes it
    notes = "; ".join(filter(None, (shown, declared.bounds)))
    about = declared.description
    if declared.default is None and shown:
        about = f"{about.partition('; by default')[0]}."  # the preset replaces the value described there
    text = f"{about}  [{notes}]" if notes else about
    shape = click.Option if is_common else RareOption
    if declared.kind is bool:
        spelling = f"{declared.option}/{declared.option.replace('--', '--no-', 1)}"
        return click.option(declared.name, spelling, cls=shape, default=None, help=text)
    value = _Value(declared)
    return click.option(
        declared.name, declared.option, cls=shape, type=value, metavar=value.name, default=None, help=text
    )

"""`train`, `compare`, `report` and `demo`: from configurations to trained models, tables and plots."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import seq2seq_attn as s2s
from seq2seq_attn.cli.arguments import (
    Overrides,
    Plugin,
    argument,
    complete_runs,
    folder,
    load_plugins,
    prepare,
)
from seq2seq_attn.cli.console import answer, say
from seq2seq_attn.comparison.launchers import On
from seq2seq_attn.errors import UserError
from seq2seq_attn.training.processes import LostProcessError, joined, launched, speaks

if TYPE_CHECKING:
    from seq2seq_attn.comparison.schedule import IfDone
    from seq2seq_attn.strict import Override

RUNS = Path("runs")


def train(
    config: Annotated[Path | None, argument("CONFIG", "The YAML configuration of a run.")] = None,
    overrides: Overrides = None,
    output: Annotated[Path | None, folder("The run folder; default: runs/NAME for CONFIG NAME.yaml.")] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Start from the weights and vocabularies of this run, as training.start_from does.",
            autocompletion=complete_runs,
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys", help="List the keys of a configuration, or those at KEY.PATH in place of CONFIG, and exit."
        ),
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of a configuration, for editors, and exit.")
    ] = False,
    plugin: Plugin = None,
) -> None:
    """Train one model and score it.

    Keeps the weights with the best validation score and scores them on the test set, if the configuration names one.
    After Ctrl-C or SIGTERM, --resume continues from the last checkpoint, exactly; with another learning rate or
    schedule only if an override says so. A folder has one training at a time. Several processes that torchrun or srun
    starts train one model, each on its share of every batch (docs/scale.md).

    Examples:
        seq2seq-attn train experiments/x.yaml --output runs/x training.batch_size=32
        seq2seq-attn train experiments/x.yaml --output runs/x --resume training.max_epochs=80
        seq2seq-attn train mine.yaml --from runs/mine --output runs/adapted training.freeze=[encoder]
        seq2seq-attn train mine.yaml --from runs/mine --output runs/longer training.start_optimizer=kept
        seq2seq-attn train mine.yaml training.attention_pictures=4
        seq2seq-attn train mine.yaml --plugin my_scorer.py model.context.scorer=my_scorer
        seq2seq-attn train --keys model.decoder
        seq2seq-attn train --schema > configuration.schema.json
    """
    if keys:
        from seq2seq_attn.strict.keys import key_lines

        load_plugins(plugin)
        answer("\n".join(key_lines(s2s.Config, str(config or ""))))
        return
    if schema:
        from seq2seq_attn.strict.keys import json_schema

        load_plugins(plugin)
        answer(json.dumps(json_schema(s2s.Config), indent=2))
        return
    if config is None:
        raise UserError("give a CONFIG, the YAML file of a run (see seq2seq-attn train --help); --keys lists its keys")
    if resume and overwrite:
        raise UserError("--resume continues a run and --overwrite deletes it; give one of them")
    run = output or RUNS / config.stem
    with _resumable(f"{run} keeps what was trained up to its last checkpoint", "--resume"), joined() as processes:
        from seq2seq_attn.api.experiments import train_configured
        from seq2seq_attn.api.scores import Scores
        from seq2seq_attn.runs.folder import IfExists, refuse_source
        from seq2seq_attn.runs.warm_start import read_configuration
        from seq2seq_attn.strict import overridden_key, read_yaml

        if_exists: IfExists = "resume" if resume else "overwrite" if overwrite else "refuse"
        refuse_source(run, config, if_exists)
        prepare(plugin)
        given: list[Override] = [*(overrides or ())]
        if start is not None:
            given.append(("training.start_from", str(start)))
        settings = read_configuration(read_yaml(config), given, config)
        model = train_configured(settings, run, if_exists, set(map(overridden_key, given)))
        if not processes.is_first:
            return
        metrics = model.metrics
        trained = metrics["training"]
        best, label = trained["best"], settings.monitored.label
        reached = "no validation yet" if best is None else f"best validation {label} {best:.2f}"
        answer(f"{reached}, {trained['epochs']} epochs, {trained['seconds']:.0f} s")
        if "test" in metrics:
            answer(str(Scores(metrics["test"], settings.source_unit)))
    _say_next(run, "FILE")


def compare(
    experiment: Annotated[Path, argument("EXPERIMENT", "The YAML file of an experiment.")],
    overrides: Overrides = None,
    output: Annotated[
        Path | None, folder("For runs and report; default: comparisons/NAME, with the name of the experiment.")
    ] = None,
    on: Annotated[
        On,
        typer.Option(
            help="Where runs are trained: this machine, a cluster of Ray, or the Slurm of this host (docs/scale.md)."
        ),
    ] = "local",
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs to train at once; default: one on this machine, where they share the cores, and on a cluster as "
            "many as there is room for.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be trained, and how far each run is; train nothing.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Train all runs again.")] = False,
    evidence: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="evidence.json.gz of an earlier comparison, whose runs are not trained again."
        ),
    ] = None,
    plugin: Plugin = None,
) -> None:
    """Train the arms of an experiment and compare them.

    Trains each arm once per seed, except for runs that are already finished, and scores it on the test set. After
    Ctrl-C or SIGTERM, the same command continues. Several processes, on one host or on several that share the folder,
    may run the same command: they share its runs. A run that fails does not stop the others; the report says what is
    missing, and the exit code is 1. Overrides change the base configuration of all arms, or the experiment itself, as
    in seeds=[1,2,3], or what a run gets of a cluster, as in resources.gpus=1.

    Examples:
        seq2seq-attn compare experiments/multi30k-en-de/experiment.yaml
        seq2seq-attn compare experiments/x/experiment.yaml seeds=[1,2,3] training.max_epochs=20 --jobs 2
        seq2seq-attn compare experiments/x/experiment.yaml --on ray resources.cpus=2 --dry-run
        seq2seq-attn compare experiments/x/experiment.yaml --on slurm resources.partition=long resources.hours=8
    """
    with _resumable("finished runs are kept, and the others up to their last checkpoint"):
        from seq2seq_attn.comparison.experiment import read_experiment

        if dry_run and overwrite:
            raise UserError("--dry-run deletes nothing; give it without --overwrite")
        prepare(plugin)
        grid = read_experiment(experiment, tuple(overrides or ()))
        if dry_run:
            answer(s2s.plan(grid, output, on=on, evidence=evidence))
            return
        if_exists: IfDone = "overwrite" if overwrite else "resume"
        found = s2s.compare(
            grid, output, on=on, jobs=jobs, if_exists=if_exists, command=_this_command(), evidence=evidence
        )
    _show(found)
    _say_next(found.run(found.results.best.name))
    _fail_if_incomplete(found)


def report(
    experiment: Annotated[
        Path,
        argument("EXPERIMENT", "The folder that compare wrote, or an experiment's YAML file or folder."),
    ],
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute", help="Compute all numbers again from evidence.json.gz and the corpora; write nothing."
        ),
    ] = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="Also write live.html: one file that translates and shows attention, offline."),
    ] = False,
    arm: Annotated[
        list[str] | None,
        typer.Option(metavar="ARM", help="An arm for --live; default: the best and the baseline. Repeatable."),
    ] = None,
    plugin: Plugin = None,
) -> None:
    """Rewrite the report of a comparison, or check its numbers.

    Page, tables and plots are generated from the JSON files of the results; no model is loaded. report.html is a
    single file that works offline. With --live, the models of some arms are written into a page of their own, which
    decodes in the browser; this needs the extra [export]. With --recompute, all numbers are computed again from the
    outputs, alignments and scores of the runs, and the command fails if any differs from results.json.

    Examples:
        seq2seq-attn report experiments/multi30k-en-de
        seq2seq-attn report comparisons/demo --live
        seq2seq-attn report comparisons/demo --live --arm 'additive attention' --arm 'mean of states'
    """
    if recompute and live:
        raise UserError("--recompute writes nothing; give --live without it")
    if arm and not live:
        raise UserError("--arm names arms for the live page; give --live, too")
    load_plugins(plugin)
    found = s2s.Comparison.load(experiment)
    if not recompute:
        page = found.write_live(arm or (), say=say) if live else None
        _show(found.write())
        if page:
            answer(f"open {page} ({page.stat().st_size / 1e6:.1f} MB, works offline)")
        return
    checked = found.recompute()
    for line in checked.differences:
        answer(line)
    if checked.differences:
        say(f"{len(checked.differences)} of {checked.values:,} values of {found.folder} differ from the evidence")
        raise typer.Exit(1)
    answer(f"all {checked.values:,} values of {found.folder} agree with the evidence")


def demo(
    output: Annotated[
        Path | None,
        folder("For runs and report; default: comparisons/demo, or comparisons/demo-quick with --quick."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Train two of the arms on short sentences, in less than a minute.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Train all runs again.")] = False,
) -> None:
    """Show within minutes what attention is for.

    Trains four arms, one of which attends to the source, to translate the bundled corpus from English to Chinese. After
    Ctrl-C or SIGTERM, the same command continues.

    Examples:
        seq2seq-attn demo
        seq2seq-attn demo --quick --output quick-demo
    """
    with _resumable("finished runs are kept, and the others up to their last checkpoint"):
        prepare()
        if_exists: IfDone = "overwrite" if overwrite else "resume"
        jobs = max(2, os.cpu_count() or 1)  # in processes of their own, whose messages are put together
        found = s2s.demo(output, quick=quick, jobs=jobs, if_exists=if_exists, command=_this_command())
    _show(found)
    if quick:
        say(f"next: {shlex.join([*_as_started(), 'demo'])}")
    elif (run := found.run(found.results.best.name)).exists():
        say(f"next: echo 'Tom chases Jerry.' | {shlex.join([*_as_started(), 'translate', str(run)])}")
    _fail_if_incomplete(found)


def _fail_if_incomplete(found: s2s.Comparison) -> None:
    """Exit with 1 if runs failed, after all others are reported; the same command tries them again."""
    from seq2seq_attn.report.conclusion import missing_runs

    if missing := missing_runs(found.results):
        say(f"{len(missing)} run{'s' if len(missing) > 1 else ''} failed; the same command tries again:")
        for each in missing:
            say(f"  {each}")
        raise typer.Exit(1)


def _show(found: s2s.Comparison) -> None:
    """Print the table, two conclusions and the path of the report."""
    found.show()
    answer(f"open {found.report}")


def _say_next(run: Path, *more: str) -> None:
    """Print the command that tries out a run, quoted for a shell; nothing if the run was trained elsewhere."""
    if not run.exists():
        return
    say(f"next: {shlex.join([*_as_started(), 'translate', str(run), *more])}")


@contextmanager
def _resumable(kept: str, *more: str) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, prints what is kept and the command to continue, this one with `more`.

    Where one of the processes of a training has ended, the error of another one says so.
    """
    try:
        yield
    except KeyboardInterrupt:
        if speaks():
            say(f"interrupted; {kept}; continue with:\n  {_this_command(_program(), *more)}")
        raise
    except LostProcessError as error:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher, which ends this process too, lets it say so
        launch = launched()
        again = f"continue with: {_this_command(_program(), *more)}"
        if launch is not None and launch.restarts_left > 0:
            again = "its launcher continues it"
        raise LostProcessError(f"{error}; {kept}; {again}") from None


def _this_command(program: Sequence[str] = ("seq2seq-attn",), *more: str) -> str:
    """This process's command line, quoted for a shell, with more arguments and without --overwrite.

    By default as it is typed for an installed program: for reports, which are read on other machines.
    """
    arguments = [each for each in sys.argv[1:] if each not in ("--overwrite", *more)]
    return shlex.join([*program, *arguments, *more])


def _program() -> list[str]:
    """How this process was started, or all of those that train one model."""
    if (launch := launched()) is not None and launch.world > 1:
        return list(launch.command)
    return _as_started()


def _as_started() -> list[str]:
    """The program as this process was started, such as .venv/bin/seq2seq-attn if it is not on the path."""
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return [sys.executable, "-m", "seq2seq_attn"]
    found = shutil.which(path.name)
    is_on_path = found is not None and Path(found).resolve() == path.resolve()
    return [path.name if is_on_path else sys.argv[0]]

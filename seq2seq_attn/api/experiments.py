"""Training and comparing from Python: a configuration gives a model, an experiment gives a comparison."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_attn.api.tables import WIDTH, Answers, as_text, html_table
from seq2seq_attn.api.texts import TextsBeside
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.report.columns import columns
from seq2seq_attn.report.conclusion import conclusion, summary
from seq2seq_attn.report.export import as_csv, as_latex, as_records
from seq2seq_attn.report.table import markdown, notes, terminal
from seq2seq_attn.report.write import write_report
from seq2seq_attn.results.records import RUNS, run_folder
from seq2seq_attn.results.results import RESULTS, Results
from seq2seq_attn.runs import Say, messages
from seq2seq_attn.strict import Strict, read_yaml
from seq2seq_attn.training.processes import joined

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from seq2seq_attn.api.model import Model
    from seq2seq_attn.comparison.evidence import Recomputed
    from seq2seq_attn.comparison.experiment import Experiment, RunGrid
    from seq2seq_attn.comparison.launchers import On
    from seq2seq_attn.comparison.schedule import IfDone
    from seq2seq_attn.corpora.vectors import HasVectors
    from seq2seq_attn.runs.folder import IfExists
    from seq2seq_attn.runs.pretrained import Pretrained

COMPARISONS = Path("comparisons")

_SHORT = {"scorer": "model.context.scorer"}  # overrides with a short name


def train(
    config: Path | str | Config | Mapping[str, Any],
    output: Path | str,
    *,
    if_exists: IfExists = "refuse",
    silent: bool = False,
    pretrained: Mapping[str, HasVectors] | None = None,
    **overrides: Any,
) -> Model:
    """Trains one model into a run folder and scores it, if the configuration names a test set.

    Several processes that `torchrun` or `srun` has started train it together; each returns the model.

    Args:
        config: A YAML file, a `Config`, or a mapping of its values. In `data`, each `source` and `target` may be lines
            in memory, a column of a data frame for example; they are written to the folder OUTPUT.data.
        output: The run folder.
        if_exists: What to do if the folder contains a run: "refuse" it, "resume" its training from the last checkpoint,
            also after Ctrl-C, which is KeyboardInterrupt, or "overwrite" it. A run that is resumed may have another
            learning rate or schedule if an override names it, as in `**{"training.optimizer.learning_rate": 0.001}`.
        silent: Print no progress, which otherwise goes to stderr, as on the command line.
        pretrained: Word vectors in memory, such as torchtext's, by side, as in `{"source": vectors}`.
        **overrides: Changes of the configuration: of a section, as in `training={"max_epochs": 3}`, of a key, as in
            `**{"training.max_epochs": 3}`, or of the scorer, as in `scorer="general"`, `scorer=MyScorer` or
            `scorer={"name": "additive", "hidden_size": 64}`.

    Returns:
        The model, with its folder.

    Raises:
        UserError: There is a mistake in the configuration or in the data, the loss is not finite, or another process
            trains in the folder.
    """
    from seq2seq_attn.runs.folder import flat, refuse_folder, refuse_source

    folder = Path(output)
    refuse_folder(folder)
    if isinstance(config, (Path, str)):
        refuse_source(folder, Path(config), if_exists)
    texts = TextsBeside(folder)
    if isinstance(config, Mapping):
        config = {key: texts.replaced(value, "") if key == "data" else value for key, value in config.items()}
    overrides = {key: texts.replaced(value, "") if key == "data" else value for key, value in overrides.items()}
    settings = _config(config, overrides)
    given = flat(dict(_full(overrides)))
    with joined() as processes:
        processes.once(lambda: texts.write(overwrite=if_exists == "overwrite"))
        return train_configured(settings, folder, if_exists, given, silent=silent, pretrained=_vectors(pretrained))


def train_configured(
    settings: Config,
    folder: Path,
    if_exists: IfExists,
    given: Collection[str],
    *,
    silent: bool = False,
    pretrained: Pretrained | None = None,
) -> Model:
    """As `train`, with a configuration that is complete; `given` are the keys that were given as overrides."""
    from seq2seq_attn.analysis.scoring import evaluate
    from seq2seq_attn.api.model import Model
    from seq2seq_attn.api.pictures import draw_attention
    from seq2seq_attn.runs.folder import reserved
    from seq2seq_attn.runs.train import train as train_run

    with joined() as processes:
        silent = silent or not processes.is_first
        with reserved(settings, folder, if_exists, given=given) if processes.is_first else nullcontext():
            trained = train_run(
                settings,
                folder,
                name=folder.name,
                if_exists=if_exists,
                **_progress(silent),
                pretrained=pretrained,
                given=given,
                draw=draw_attention,
                processes=processes,
            )
            is_tested = settings.data.test is not None
            # The others wait, so that the run is whole when they return.
            processes.once(lambda: is_tested and evaluate(trained, folder, say=messages(silent)))
    return Model(trained, folder)


def compare(
    experiment: Path | str | Experiment | Mapping[str, Any] | RunGrid,
    output: Path | str | None = None,
    *,
    on: On = "local",
    jobs: int | None = None,
    if_exists: IfDone = "resume",
    silent: bool = False,
    command: str = "",
    evidence: Path | str | None = None,
    **overrides: Any,
) -> Comparison:
    """Trains and tests the arms of an experiment, once per seed, compares them, and writes the report.

    Several processes may call this for the same folder, and share its runs. A run that fails does not stop the others:
    `results.missing` names it with the reason.

    Args:
        experiment: A YAML file, an `Experiment`, or a mapping of its values.
        output: The folder of the report and of the runs, which are at `runs/ARM/seed-N` in it; by default
            `comparisons/NAME`.
        on: Where runs are trained: on this machine ("local"), or on a cluster by "ray" or "slurm", the extras [ray] and
            [slurm]. Each run there gets the `resources` of the experiment; see docs/scale.md.
        jobs: Runs to train at once, each in its own process; by default one on this machine, and on a cluster all that
            there is room for. With more than one, a script needs `if __name__ == "__main__":`.
        if_exists: Whether to "resume", so that finished runs are kept and interrupted ones continue, or to "overwrite".
        silent: Print no progress, which otherwise goes to stderr, as on the command line.
        command: The command line that the report shows for reproduction.
        evidence: `evidence.json.gz` of an earlier comparison, whose runs are not trained again: so seeds and arms can
            be added to published results.
        **overrides: Changes of the base configuration of all arms, as in `train`, or of a field of the experiment, as
            in `seeds=[1, 2, 3]`.

    Returns:
        The results, with their folder.

    Raises:
        UserError: There is a mistake in the experiment or in the data, or a cluster cannot be reached; nothing is
            trained.
        FailedError: Every run failed.
    """
    from seq2seq_attn.api.pictures import draw_attention
    from seq2seq_attn.comparison.compare import compare as compare_runs
    from seq2seq_attn.comparison.launchers import find_launcher

    grid = _grid(experiment, overrides)
    grid = grid._replace(runs=[run._replace(draw=draw_attention) for run in grid.runs])
    place = _place(output, grid.experiment)
    results = compare_runs(
        grid,
        place,
        if_exists=if_exists,
        launcher=find_launcher(on, jobs, place / RUNS),
        command=command,
        evidence=None if evidence is None else Path(evidence),
        **_progress(silent),
    )
    return Comparison(results, place).write()


def plan(
    experiment: Path | str | Experiment | Mapping[str, Any] | RunGrid,
    output: Path | str | None = None,
    *,
    on: On = "local",
    evidence: Path | str | None = None,
    **overrides: Any,
) -> Plan:
    """What `compare` would train, and how far each run is; nothing is trained or written.

    Args:
        experiment: See `compare`.
        output: See `compare`.
        on: See `compare`.
        evidence: See `compare`.
        **overrides: See `compare`.

    Returns:
        A table with one row per run: its state ("done", "running", "continues" from a checkpoint or "new"), the epoch,
        step and validation of its last checkpoint, what it gets of a cluster, and its folder, or the file of evidence
        that it is in.

    Raises:
        UserError: There is a mistake in the experiment, the folder contains something else, or the evidence is of other
            runs.
    """
    from seq2seq_attn.comparison.compare import plan as planned_runs

    grid = _grid(experiment, overrides)
    before = None if evidence is None else Path(evidence)
    return Plan(planned_runs(grid, _place(output, grid.experiment), on, before))


class Plan(Answers[Any]):
    """The runs of a comparison, each with its state, as returned by `seq2seq_attn.plan`."""

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per run: `pandas.DataFrame(...)`."""
        return [
            {"run": row.run.name, "folder": row.run.folder, **row.progress._asdict(), **row.run.resources.model_dump()}
            for row in self
        ]

    def __rich__(self) -> Table:
        from seq2seq_attn.comparison.progress import grid_table

        return grid_table(self)

    def __repr__(self) -> str:
        return as_text(self)


def _place(output: Path | str | None, experiment: Experiment) -> Path:
    return Path(output) if output is not None else COMPARISONS / experiment.name


def demo(
    output: Path | str | None = None,
    *,
    quick: bool = False,
    jobs: int = 1,
    if_exists: IfDone = "resume",
    silent: bool = False,
    command: str = "seq2seq-attn demo",
) -> Comparison:
    """Trains four arms, one of which attends to the source, to translate the embedded corpus from English to Chinese.

    It takes minutes. A demo that was interrupted continues.

    Args:
        output: The folder, by default `comparisons/demo` or `comparisons/demo-quick`.
        quick: Train two of the arms on short sentences, in less than a minute.
        jobs: As in `compare`, and so are the other arguments.
        if_exists: See `compare`.
        silent: See `compare`.
        command: See `compare`.

    Returns:
        The results, with their folder.

    Raises:
        UserError: The folder contains something else.
    """
    from seq2seq_attn.comparison.compare import demo as run_demo
    from seq2seq_attn.comparison.launchers import find_launcher

    place = Path(output) if output is not None else COMPARISONS / ("demo-quick" if quick else "demo")
    results = run_demo(
        place,
        quick,
        if_exists=if_exists,
        launcher=find_launcher("local", jobs, place / RUNS),
        command=command,
        **_progress(silent),
    )
    return Comparison(results, place).write()


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """The results of an experiment and their folder, as returned by `seq2seq_attn.compare`."""

    results: Results
    folder: Path
    files: Sequence[Path] = ()  # of the report, if the report was just written

    @classmethod
    def load(cls, place: Path | str) -> Comparison:
        """Loads a finished comparison, without training.

        Args:
            place: Its folder, or the YAML file of its experiment, whose results are in `comparisons/NAME` or, failing
                that, in `results/` next to the file.

        Raises:
            UserError: There are no results, or the file is malformed.
        """
        given = Path(place)
        places = [given, given / "results"]
        if given.is_file():
            if not isinstance(name := read_yaml(given).get("name"), str):
                raise UserError(f"{given}: an experiment has a name; give one, or the folder of a comparison")
            places = [COMPARISONS / name, given.parent / "results"]
        folder = next((each for each in places if (each / RESULTS).exists()), places[0])
        return cls(Results.load(folder / RESULTS), folder)

    def write(self) -> Comparison:
        """Rewrites the report (page, tables and figures) from the JSON files in the folder."""
        from seq2seq_attn.files.lock import locked

        with locked(self.folder, wait=True):  # another process may be about to replace these files
            return replace(self, files=tuple(write_report(self.folder)))

    def write_live(self, arms: Sequence[str] = (), *, say: Say = lambda _: None) -> Path:
        """Writes live.html beside the report: one file that translates and shows attention in the browser, offline.

        See docs/export.md.

        Args:
            arms: The arms whose models it contains, each from its first seed; by default the best one and the baseline.
            say: Called with messages.

        Returns:
            The path of the file.

        Raises:
            UserError: There is no such run, or it was removed; its tokenizer is learned; torch.export cannot record a
                part of the model; or the extra [export] is not installed.
        """
        from seq2seq_attn.export.html import FILE, live_page
        from seq2seq_attn.files.writing import write_bytes
        from seq2seq_attn.runs.model import TrainedModel

        best = self.results.best.name
        chosen = arms or dict.fromkeys([best, self.results.baseline or best])
        runs = {arm: self.run(arm) for arm in chosen}
        for arm, run in runs.items():
            if not run.exists():
                raise UserError(f"{run}: the page needs the model of arm {arm!r}, which is not here; train it again")
        path = self.folder / FILE
        write_bytes(path, live_page({arm: TrainedModel.load(run, "cpu") for arm, run in runs.items()}, say))
        return path

    def recompute(self) -> Recomputed:
        """Recomputes all values from the evidence in the folder, without training; `.differences` lists what differs.

        Raises:
            UserError: There is no evidence, or a corpus is missing or is not the one that the results were computed
                from.
        """
        from seq2seq_attn.comparison.evidence import recompute

        return recompute(self.folder)

    @property
    def report(self) -> Path:
        """The path of the page: one HTML file that works offline."""
        return self.folder / "report.html"

    @property
    def conclusion(self) -> list[str]:
        """The conclusions that the results support, in sentences."""
        return conclusion(self.results)

    def run(self, arm: str, seed: int | None = None) -> Path:
        """The run folder of an arm.

        Args:
            arm: The name of the arm.
            seed: By default the first seed that was trained here, or else the first.

        Raises:
            UserError: The experiment has no such run.
        """
        found = next((each for each in self.results.arms if each.name == arm), None)
        if found is None or seed not in (None, *found.seeds):
            known = "; ".join(f"{each.name!r} with seeds {list(each.seeds)}" for each in self.results.arms)
            raise UserError(f"no run of arm {arm!r}{'' if seed is None else f' with seed {seed}'}; choose from {known}")
        folders = [self.folder / RUNS / run_folder(arm, each) for each in (found.seeds if seed is None else (seed,))]
        return next((folder for folder in folders if folder.exists()), folders[0])

    def model(self, arm: str, seed: int | None = None) -> Model:
        """The model of an arm; the arguments of `run`.

        Raises:
            UserError: There is no such run, or it was removed.
        """
        from seq2seq_attn.api.model import Model

        return Model.load(self.run(arm, seed))

    def table(self) -> ComparisonTable:
        """The table with one row per arm: text, HTML in a notebook, or `.markdown()`, `.latex()`, `.csv()`."""
        return ComparisonTable(self.results)

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per arm with all numbers of the table, not rounded: `pandas.DataFrame(...)`."""
        return as_records(self.results)

    def plot_by_length(self) -> Figure:
        """The main metric against source length, with one line per arm."""
        from seq2seq_attn.report.figures import by_length_figure

        return by_length_figure(self.results)

    def plot_curves(self) -> Figure:
        """Validation score and loss against epochs."""
        from seq2seq_attn.report.figures import learning_curve_figure
        from seq2seq_attn.results.curves import CURVES

        return learning_curve_figure(self.results, CURVES.load(self.folder))

    def show(self) -> None:
        """Prints the main columns of the table and two conclusions; in a notebook, displays all conclusions.

        Everything else is in the report, and in `table().markdown()`.
        """
        from rich.console import Console

        console = Console()
        if console.is_jupyter:
            from IPython.display import display

            display(self)  # type: ignore[no-untyped-call]
            return
        if not console.is_terminal:
            console = Console(width=WIDTH)
        with console.capture() as table:  # rich would end the process if the reader of a pipe has closed it
            console.print(terminal(self.results, console.width))
        first, second = summary(self.results)[:1], summary(self.results)[1:]
        print("\n".join([table.get(), *first, *([self.results.note] if self.results.note else second)]))

    def __repr__(self) -> str:
        return "\n".join([repr(self.table()), "", *self.conclusion])

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.conclusion)
        place = html.escape(str(self.report))
        page = f'<p>Report: <a style="color:inherit" href="{html.escape(self.report.as_posix())}">{place}</a></p>'
        return f"{self.table()._repr_html_()}<ul>{sentences}</ul>{page if self.report.exists() else ''}"


class ComparisonTable:
    """The table of a comparison, in any format."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def markdown(self) -> str:
        """As GitHub Markdown, with every column, and the breakdowns."""
        return markdown(self._results)

    def latex(self) -> str:
        """As LaTeX with the rules of booktabs."""
        return as_latex(self._results)

    def csv(self) -> str:
        """One line per arm, numbers not rounded."""
        return as_csv(self._results)

    def __repr__(self) -> str:
        return as_text(terminal(self._results, WIDTH))

    def _repr_html_(self) -> str:
        """The main columns, with notes on their meaning below."""
        shown = [column for column in columns(self._results) if not column.optional]
        rows = list(zip(*([cell.line for cell in column.cells] for column in shown), strict=True))
        below = "".join(f"<li>{html.escape(note)}</li>" for note in notes(self._results, shown))
        table = html_table([column.header for column in shown], rows)
        title = f"<b>{html.escape(self._results.experiment)}</b>"
        return f'{title}{table}<details style="opacity:0.75"><summary>notes</summary><ul>{below}</ul></details>'


def _progress(silent: bool) -> dict[str, Any]:
    """How a function of `runs` and `comparison` says what it does."""
    return {"say": messages(silent), "bar": None if silent else True}


def _config(config: Path | str | Config | Mapping[str, Any], overrides: Mapping[str, Any]) -> Config:
    if isinstance(config, Config) and not overrides:
        return config
    from seq2seq_attn.runs.warm_start import read_configuration

    values, path = _values(config)
    return read_configuration(values, _full(overrides), path)


def _vectors(pretrained: Mapping[str, HasVectors] | None) -> Pretrained | None:
    from seq2seq_attn.runs.pretrained import Pretrained

    for side in pretrained or ():
        if side not in Pretrained._fields:
            raise UserError(f"pretrained: {side!r} is not a side; give vectors for 'source', 'target' or both")
    return None if pretrained is None else Pretrained(**pretrained)


def _grid(experiment: Path | str | Experiment | Mapping[str, Any] | RunGrid, overrides: Mapping[str, Any]) -> RunGrid:
    from seq2seq_attn.comparison.experiment import RunGrid, experiment_grid

    if isinstance(experiment, RunGrid):
        if overrides:
            raise UserError(f"{', '.join(overrides)}: a RunGrid is complete; give the experiment, or read it with them")
        return experiment
    values, path = _values(experiment)
    return experiment_grid(values, path, _full(overrides))


def _values(given: Path | str | Strict | Mapping[str, Any]) -> tuple[Mapping[str, Any], Path | None]:
    """The plain values of a configuration, and the file that they were read from."""
    if isinstance(given, (str, Path)):
        return read_yaml(Path(given)), Path(given)
    return (given.model_dump() if isinstance(given, Strict) else given), None


def _full(overrides: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(_SHORT.get(key, key), value) for key, value in overrides.items()]

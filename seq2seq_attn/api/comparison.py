"""A finished comparison: its results, its report, its models and its table."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_attn.api.tables import WIDTH, as_text, html_table
from seq2seq_attn.errors import UserError
from seq2seq_attn.report.columns import columns
from seq2seq_attn.report.conclusion import conclusion, summary
from seq2seq_attn.report.export import as_csv, as_latex, as_records
from seq2seq_attn.report.table import markdown, notes, terminal
from seq2seq_attn.report.write import write_report
from seq2seq_attn.results.records import COMPARISONS, RUNS, run_folder
from seq2seq_attn.results.results import RESULTS, Results
from seq2seq_attn.runs import Say
from seq2seq_attn.strict import read_yaml

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2seq_attn.api.model import Model
    from seq2seq_attn.comparison.evidence import Recomputed


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

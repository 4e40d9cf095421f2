"""Figures of logs: what is drawn, the same bytes for the same log, faults by line."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from spacy_elmo.training import Evaluation
from spacy_elmo.training.plotting import Run, plot, read_log

pytest.importorskip("matplotlib")


def make_evaluations(n_evaluations=5, high=900.0, learn_rate=0.001):
    return [
        {
            "step": 100 * n,
            "epoch": 0.1 * n,
            "n_tokens": 250_000 * n,
            "loss": 6.0 - 0.1 * n,
            "forward_perplexity": high / n,
            "backward_perplexity": high / n - 3,
            "perplexity": high / n - 1.5,
            "learn_rate": learn_rate * (1 - 0.1 * n),
            "tokens_per_second": 4000.0,
            "seconds": 60.0 * n,
        }
        for n in range(1, n_evaluations + 1)
    ]


def write_log(path, evaluations):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(e) + "\n" for e in evaluations), encoding="utf-8")
    return path


def make_run(name="run", **settings):
    return Run(name, [Evaluation(**values) for values in make_evaluations(**settings)])


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are written, to look at."""
    from matplotlib.figure import Figure

    figures = []
    savefig = Figure.savefig

    def keep(self, *args, **kwargs):
        figures.append(self)
        return savefig(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def curves(ax):
    """What each line shows, those of one point, which are the marks of the best, left out."""
    return [
        (list(map(float, line.get_xdata())), list(map(float, line.get_ydata())))
        for line in ax.lines
        if len(line.get_xdata()) > 1
    ]


def test_curves_are_those_of_the_log(tmp_path, drawn):
    evaluations = make_evaluations()
    run = read_log(write_log(tmp_path / "out" / "log.jsonl", evaluations).parent)
    assert run.name == "out"
    plot([run], tmp_path / "figure.png")
    loss, perplexity, rate = drawn[0].axes
    steps = [float(e["step"]) for e in evaluations]

    def of(name):
        return (steps, [e[name] for e in evaluations])

    assert curves(loss) == [of("loss")]
    assert curves(perplexity) == [of("forward_perplexity"), of("backward_perplexity")]
    assert curves(rate) == [of("learn_rate")]
    # The best is marked on both curves.
    marks = [line for line in perplexity.lines if len(line.get_xdata()) == 1]
    assert [list(line.get_xdata()) for line in marks] == [[500], [500]]
    labels = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert labels == ["out: best mean perplexity 178.5 (forward 180.0, backward 177.0) at step 500"]


@pytest.mark.parametrize(
    "x, label, expected",
    [
        ("steps", "Steps", 200),
        ("epochs", "Epochs", 0.2),
        ("tokens", "Tokens read (millions)", 0.5),
        ("hours", "Hours", 2 / 60),
    ],
)
def test_the_horizontal_axis_counts_what_it_says(tmp_path, drawn, x, label, expected):
    plot([make_run()], tmp_path / "figure.svg", x=x)
    bottom = drawn[0].axes[-1]
    assert bottom.get_xlabel() == label
    assert curves(bottom)[0][0][1] == pytest.approx(expected)


def test_several_runs_have_a_legend_and_colours(tmp_path, drawn):
    plot([make_run("a"), make_run("b", n_evaluations=3)], tmp_path / "figure.png")
    labels = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert [label.partition(":")[0] for label in labels] == ["a", "b"]
    first, second = drawn[0].axes[0].lines
    assert first.get_color() != second.get_color()


@pytest.mark.parametrize("high, n_evaluations, scale", [(900, 5, "log"), (900, 2, "linear")])
def test_perplexities_far_apart_are_drawn_on_a_log_scale(
    tmp_path, drawn, high, n_evaluations, scale
):
    plot([make_run(high=high, n_evaluations=n_evaluations)], tmp_path / "figure.png")
    assert drawn[0].axes[1].get_yscale() == scale
    assert ("log scale" in drawn[0].axes[1].get_ylabel()) == (scale == "log")


def test_rates_far_apart_are_drawn_on_a_log_scale(tmp_path, drawn):
    plot([make_run(), make_run(learn_rate=0.2)], tmp_path / "figure.png")
    plot([make_run(), make_run(learn_rate=0.002)], tmp_path / "figure.png")
    assert [figure.axes[2].get_yscale() for figure in drawn] == ["log", "linear"]


def test_odd_runs_are_drawn(tmp_path):
    """One evaluation, a rate of zero, an infinite perplexity."""
    (values,) = make_evaluations(1, learn_rate=0.0)
    values["forward_perplexity"] = values["perplexity"] = float("inf")
    run = read_log(write_log(tmp_path / "log.jsonl", [values]))
    plot([run], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_equal_logs_give_equal_bytes(tmp_path):
    """In another process too, and whatever the user's own settings of matplotlib."""
    log = write_log(tmp_path / "out" / "log.jsonl", make_evaluations())
    code = (
        "import sys, matplotlib; matplotlib.rcParams['lines.linewidth'] = 9\n"
        "from spacy_elmo.training.plotting import plot, read_log\n"
        "for path in sys.argv[2:]: plot([read_log(sys.argv[1])], path)\n"
        "assert matplotlib.rcParams['lines.linewidth'] == 9\n"
    )
    others = [tmp_path / "other.png", tmp_path / "other.svg"]
    subprocess.run([sys.executable, "-c", code, log, *others], check=True)
    for other in others:
        path = tmp_path / f"figure{other.suffix}"
        plot([read_log(log)], path)
        data = path.read_bytes()
        assert other.read_bytes() == data
        plot([read_log(log)], path, x="hours")
        assert path.read_bytes() != data
    assert ElementTree.fromstring(data).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_failed_figure_leaves_the_one_before(tmp_path, monkeypatch):
    path = tmp_path / "figure.png"
    plot([make_run()], path)
    before = path.read_bytes()

    def fail(path, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", fail)
        with pytest.raises(OSError, match="No space left"):
            plot([make_run("other")], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"step": 1', "log.jsonl, line 3 is damaged: "),
        ("\udcff", "log.jsonl, line 3 is damaged: "),
        ("[1, 2]", r"log.jsonl, line 3 holds \[1, 2\]; expected a JSON object"),
        ('{"step": 1}', "log.jsonl, line 3: 'epoch' is None; expected a number"),
        (
            json.dumps({**make_evaluations(1)[0], "loss": "high"}),
            "log.jsonl, line 3: 'loss' is 'high'; expected a number",
        ),
    ],
)
def test_damaged_lines_are_named_by_number(tmp_path, line, message):
    log = write_log(tmp_path / "log.jsonl", make_evaluations(2))
    log.write_bytes(log.read_bytes() + line.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=message):
        read_log(log)


def test_a_missing_log_and_an_empty_one_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"log.jsonl does not exist; expected the log of a train"):
        read_log(tmp_path)
    (tmp_path / "log.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"log.jsonl has no evaluation yet"):
        read_log(tmp_path)


def test_wrong_settings_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"figure.pdf'; expected a name that ends in .png or .svg"):
        plot([make_run()], tmp_path / "figure.pdf")
    with pytest.raises(ValueError, match="x is 'days'; expected one of steps, epochs, tokens"):
        plot([make_run()], tmp_path / "figure.png", x="days")
    with pytest.raises(ValueError, match="There is no run to plot"):
        plot([], tmp_path / "figure.png")


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install spacy-elmo\[plots\]"):
        plot([make_run()], tmp_path / "figure.png")
    assert not list(tmp_path.iterdir())

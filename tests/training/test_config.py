"""Training configs: every fault is one message that names the block and the field."""

import re

import pytest

from spacy_elmo.training import TrainingConfig, read_config
from spacy_elmo.training.settings import ORDERS

from .configs import CONFIG, make_config


def test_a_config_is_resolved(tmp_path):
    config = TrainingConfig.from_dict(
        make_config(tmp_path, {"training.order": "text", "vocab.max_size": 7})
    )
    assert config.bilm.cell_size == 8
    assert config.vocabulary.max_size == 7
    assert config.training.order == "text"
    assert list(config.train) == list(config.train)
    assert config.schedule(0, 10) == 1.0


def test_the_vocab_block_may_be_left_out(tmp_path):
    config = make_config(tmp_path)
    del config["vocab"]
    settings = TrainingConfig.from_dict(config).vocabulary
    assert (settings.path, settings.max_size, settings.min_count) == (None, 0, 1)


def test_variables_and_overrides(tmp_path):
    (tmp_path / "config.cfg").write_text(CONFIG, encoding="utf-8")
    config = read_config(
        tmp_path / "config.cfg", {"paths.train": "x.txt", "training.batch_size": 3}
    )
    assert config["corpora"]["train"]["path"] == "x.txt"
    assert config["training"]["batch_size"] == 3


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"bilm.cell_sise": 3}, "[bilm] Unknown biLM setting 'cell_sise'"),
        ({"bilm.cell_size": 0}, "[bilm] biLM setting 'cell_size' is 0"),
        ({"bilm.filters": None}, "[bilm] biLM setting 'filters' is None"),
        ({"vocab.size": 3}, "[vocab] 'size' is unknown; the settings are path, max_size"),
        ({"vocab.max_size": -1}, "[vocab] max_size is -1; expected a number of words"),
        ({"vocab.min_count": 0}, "[vocab] min_count is 0; expected a whole number, 1 or more"),
        ({"vocab.path": "no.txt"}, "[vocab] path is 'no.txt'; expected a vocabulary file"),
        ({"vocab.path": 3}, "[vocab] path is 3; expected the path of a vocabulary"),
        ({"training.batch_size": 0}, "[training] batch_size is 0; expected a whole number, 1"),
        ({"training.batch_size": 2.5}, "[training] batch_size is 2.5; expected a whole number"),
        ({"training.batch_size": True}, "[training] batch_size is True; expected a whole"),
        ({"training.unroll_steps": 0}, "[training] unroll_steps is 0"),
        ({"training.eval_frequency": 0}, "[training] eval_frequency is 0"),
        ({"training.max_epochs": -1}, "[training] max_epochs is -1"),
        ({"training.max_epochs": 0}, "[training] max_epochs is 0; expected 1 or more, as neither"),
        ({"training.max_steps": 1.5}, "[training] max_steps is 1.5"),
        ({"training.max_hours": -1}, "[training] max_hours is -1; expected a number, or 0"),
        ({"training.max_hours": float("nan")}, "[training] max_hours is nan; expected a number"),
        ({"training.checkpoint_minutes": "5"}, "[training] checkpoint_minutes is '5'"),
        ({"training.patience": -1}, "[training] patience is -1; expected a number of evaluations"),
        ({"training.grad_accumulation": 0}, "[training] grad_accumulation is 0; expected a whole"),
        (
            {"training.device": "gpu"},
            "[training] device is 'gpu'; expected 'cpu', 'cuda', 'cuda:N'",
        ),
        ({"training.device": 0}, "[training] device is 0; expected 'cpu'"),
        (
            {"training.precision": "float16"},
            "[training] precision is 'float16'; expected 'float32'",
        ),
        ({"training.init": 3}, "[training] init is 3; expected the path of a model, or null"),
        ({"training.init": "nowhere"}, "[training] init: nowhere does not exist"),
        ({"training.logger": {}}, "[training.logger] names no @loggers; expected a block with"),
        ({"training.logger": {"@loggers": "none.v1"}}, "[training.logger] "),
        ({"training.grad_clip": "a"}, "[training] grad_clip is 'a'; expected a number, or 0"),
        ({"training.order": "random"}, "[training] order is 'random'; expected 'shuffled'"),
        ({"training.seed": -1}, "[training] seed is -1"),
        ({"training.n_threads": -1}, "[training] n_threads is -1; expected a whole number, or 0"),
        ({"training.batch": 2}, "[training] 'batch' is unknown; the settings are max_epochs"),
        ({"corpora.test": {}}, "[corpora] 'test' is unknown; the blocks are train, dev"),
        ({"corpora.train": {}}, "[corpora.train] names no @readers; expected a block with"),
        ({"corpora.dev": None}, "[corpora.dev] names no @readers"),
        ({"corpora.train.path": None}, "[corpora.train] path is None; expected a text file"),
        ({"corpora.train.path": "no.txt"}, "[corpora.train] path is 'no.txt', which does not"),
        ({"corpora.dev.limit": "many"}, "[corpora.dev] limit: "),
        ({"corpora.dev.lines": 3}, "[corpora.dev] lines: "),
        ({"corpora.train.@readers": "none.v1"}, "[corpora.train] "),
        ({"training.softmax": {}}, "[training.softmax] names no @softmax_heads"),
        ({"training.softmax.n_samples": 0}, "[training.softmax] n_samples is 0; expected 1"),
        ({"training.softmax.n_samples": "x"}, "[training.softmax] n_samples: "),
        ({"training.softmax.samples": 3}, "[training.softmax] samples: "),
        ({"training.softmax.@softmax_heads": "no.v1"}, "[training.softmax] "),
        (
            {"training.optimizer": {"@optimizers": "Adam.v1"}},
            "[training.optimizer] names no @torch_optimizers; expected a block with "
            "@torch_optimizers = one of spacy-elmo.Adagrad.v1, spacy-elmo.AdamW.v1",
        ),
        ({"training.optimizer.learn_rate": -1.0}, "[training.optimizer] learn_rate is -1.0"),
        ({"training.schedule": "constant"}, "[training.schedule] names no @torch_schedules"),
        ({"initialize": {}}, "'initialize' is unknown; the blocks are paths, bilm, vocab"),
        ({"vocab": 3}, "[vocab] is 3; expected a block"),
        ({"bilm": None}, "The config has no block [bilm]"),
        ({"corpora": None}, "The config has no block [corpora]"),
        ({"training": 5}, "The config has no block [training]"),
    ],
)
def test_faults_are_named_by_block_and_field(tmp_path, changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TrainingConfig.from_dict(make_config(tmp_path, changes))


def test_unknown_functions_list_what_there_is(tmp_path):
    config = make_config(tmp_path, {"training.softmax": {"@softmax_heads": "no.v1"}})
    with pytest.raises(ValueError, match=r"(?s)no\.v1.*spacy-elmo\.FullSoftmax\.v1"):
        TrainingConfig.from_dict(config)
    config = make_config(tmp_path, {"training.softmax": {"@layers": "no.v1"}})
    with pytest.raises(ValueError, match="names no @softmax_heads; .* spacy-elmo.FullSoftmax.v1"):
        TrainingConfig.from_dict(config)


@pytest.mark.parametrize(
    "text", ["no config", "[training]\nseed = ${paths.nowhere}", "[a]\nx = 1\n[a]\ny = 2", "x = 1"]
)
def test_files_that_are_no_config_are_named(tmp_path, text):
    path = tmp_path / "broken.cfg"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"broken\.cfg: \S"):
        read_config(path)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"\x89PNG\xff", "is not UTF-8 text"),
        (b"", "has no block"),
        (b"# nothing\n", "has no block"),
        (b'[nlp]\nlang = "en"\n[components]\n', r"has \[nlp\] and \[components\].* `spacy train`"),
    ],
)
def test_files_that_are_another_config_tell_what_is_expected(tmp_path, data, message):
    path = tmp_path / "other.cfg"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"other\.cfg {message}.*as `spacy elmo init-bilm`"):
        read_config(path)


def test_an_override_of_a_block_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "config.cfg"
    path.write_text(CONFIG, encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.cfg: .*nowhere"):
        read_config(path, {"nowhere.batch_size": 3})


def test_all_orders_are_taken(tmp_path):
    for order in ORDERS:
        config = TrainingConfig.from_dict(make_config(tmp_path, {"training.order": order}))
        assert config.training.order == order


@pytest.mark.parametrize("schedule", ["warmup_linear", "warmup_cosine"])
def test_a_schedule_that_needs_the_number_of_steps_is_refused_without_one(tmp_path, schedule):
    name = f"spacy-elmo.{schedule}.v1"
    changes = {"training.max_epochs": 0, "training.max_hours": 2}
    config = make_config(tmp_path, changes)
    TrainingConfig.from_dict(config)
    config["training"]["schedule"] = {"@torch_schedules": name, "warmup_steps": 5}
    message = (
        r"\[training.schedule\] this schedule ends with the run, .* set max_epochs or max_steps"
    )
    with pytest.raises(ValueError, match=message):
        TrainingConfig.from_dict(config)
    config["training"]["max_steps"] = 100
    TrainingConfig.from_dict(config)


def test_settings_are_complete_whatever_is_left_out(tmp_path):
    """What a checkpoint is compared by."""
    config = make_config(tmp_path)
    del config["vocab"]
    settings = TrainingConfig.from_dict(config).settings()
    assert settings["vocab.min_count"] == 1
    assert settings["training.grad_clip"] == 1.0
    assert settings["training.optimizer.beta2"] == 0.999
    assert settings["training.softmax.n_samples"] == 8
    assert settings["bilm.cell_size"] == 8
    assert not any(name.startswith(("paths", "corpora", "training.logger")) for name in settings)

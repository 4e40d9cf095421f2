"""Where a biLM computes. No test here needs a GPU."""

import pytest
import torch

from spacy_elmo.models import devices
from spacy_elmo.models.devices import find_device, move_to


@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_without_a_gpu_it_is_the_cpu(name):
    assert find_device(name).type == "cpu"


@pytest.mark.parametrize("name", ["auto", "cuda:1"])
def test_a_gpu_that_is_there(name, monkeypatch):
    monkeypatch.setattr(devices, "get_torch_default_device", lambda: torch.device("cuda", 0))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device(name) == torch.device("cuda", 0 if name == "auto" else 1)


@pytest.mark.parametrize("name", ["cuda", "cuda:3", "mps"])
def test_a_device_that_is_not_there_is_named(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ValueError, match=f"device is '{name}', but torch .* finds no such device"):
        find_device(name)


def test_cuda_in_a_forked_process_is_told_once(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(ValueError, match=r"Leave n_process at 1.*device = 'cpu'"):
        find_device("cuda")
    assert find_device("cpu").type == "cpu"


def test_a_bilm_moves_only_where_it_is_not(bilm, monkeypatch):
    moves = []
    monkeypatch.setattr(bilm, "to", moves.append)
    move_to(bilm, torch.device("cpu"))
    assert moves == []
    move_to(bilm, torch.device("cuda", 0))
    assert moves == [torch.device("cuda", 0)]

"""Buffers of training: kept where that is asked for, in a bounded number."""

import random

import torch

from spacy_elmo.bilm import buffers
from spacy_elmo.bilm.buffers import Lease, give_back, reuse_buffers, take_buffer

KIND = (torch.float32, torch.device("cpu"))


def test_buffers_are_kept_only_where_they_are_reused():
    first = take_buffer((2, 3), *KIND)
    give_back(first)
    assert take_buffer((2, 3), *KIND).data_ptr() != first.data_ptr()
    with reuse_buffers():
        first = take_buffer((2, 3), *KIND)
        give_back(first)
        again = take_buffer((3, 2), *KIND)
        assert again.shape == (3, 2) and again.data_ptr() == first.data_ptr()
        assert take_buffer((2, 3), *KIND).data_ptr() != first.data_ptr()
        assert take_buffer((2, 3), torch.bfloat16, KIND[1]).dtype == torch.bfloat16


def test_a_lease_gives_back_when_it_is_gone():
    with reuse_buffers():
        buffer = take_buffer((4, 4), *KIND)
        lease = Lease(buffer)
        assert take_buffer((4, 4), *KIND).data_ptr() != buffer.data_ptr()
        del lease
        assert take_buffer((4, 4), *KIND).data_ptr() == buffer.data_ptr()


def test_changing_sizes_do_not_pile_up():
    """The words of a batch are another number in each step."""
    random.seed(0)
    with reuse_buffers():
        for _ in range(2000):
            taken = [take_buffer((random.randint(900, 2000), 64), *KIND) for _ in range(3)]
            give_back(*taken)
        assert buffers._free is not None
        assert sum(len(flat) for flat in buffers._free[KIND]) < 6 * 2 * 2000 * 64


def test_an_empty_buffer_is_no_error():
    with reuse_buffers():
        assert take_buffer((0, 5), *KIND).shape == (0, 5)

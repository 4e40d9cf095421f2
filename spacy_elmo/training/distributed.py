"""The processes of a run: one, or those that ``torchrun`` started.

Every process reads its own rows of the text and sums its own gradients; the sums of all are the
same everywhere, so all make the same step. What is written, shown or decided by a clock is the
first one's business.
"""

import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, Iterator, List, Optional, Sequence, TypeVar

import torch
from torch import Tensor, distributed, nn

T = TypeVar("T")

# A process that ended is noticed at once; this ends a wait for one that hangs, and is enough for
# an evaluation. Tokenizing a text for the first time may take longer.
TIMEOUT = timedelta(minutes=30)
TEXT_TIMEOUT = timedelta(hours=24)


@dataclass(frozen=True)
class World:
    """This process among those of the run.

    :param rank: its number.
    :param size: their number.
    :param device: where its tensors live.
    """

    rank: int
    size: int
    device: torch.device
    store: Optional[distributed.Store] = None

    @classmethod
    @contextmanager
    def join(cls, device: str) -> Iterator["World"]:
        """While the block runs, the processes that ``torchrun`` started (which says so in
        ``WORLD_SIZE``, ``RANK`` and ``LOCAL_RANK``) know each other.

        :param device: as in ``[training] device``.
        :raises ValueError: there is no such device.
        :raises ConnectionError: the processes do not find each other.
        """
        size = int(os.environ.get("WORLD_SIZE", "1"))
        rank = int(os.environ.get("RANK", "0")) if size > 1 else 0
        place = find_device(device, int(os.environ.get("LOCAL_RANK", "0")) if size > 1 else 0)
        if place.type == "cuda":
            torch.cuda.set_device(place)
        if size == 1:
            yield cls(rank, size, place)
            return
        backend = "nccl" if place.type == "cuda" else "gloo"
        with _lost_processes(rank, size):
            rendezvous = distributed.rendezvous("env://", timeout=TIMEOUT)
            store, rank, size = next(rendezvous)
            distributed.init_process_group(
                backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT
            )
        try:
            yield cls(rank, size, place, store)
        finally:
            distributed.destroy_process_group()

    @property
    def is_first(self) -> bool:
        """Whether this process writes, shows and decides."""
        return self.rank == 0

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """The first process runs the block alone, then the others do, with what it has cached."""
        if self.store is not None and not self.is_first:
            with _lost_processes(self.rank, self.size):
                self.store.wait(["text"], TEXT_TIMEOUT)
        yield
        if self.store is not None and self.is_first:
            self.store.set("text", "is read")

    def sum_gradients(self, parameters: Sequence[nn.Parameter], sums: Tensor) -> Tensor:
        """Give every process the sum of all gradients.

        :param parameters: their ``grad`` is replaced; none counts as zeros.
        :param sums: further numbers to add up. *Shape:* (n,), float32
        :returns: their sums over the processes. *Shape:* (n,)
        """
        if self.size == 1:
            return sums
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([*(part.reshape(-1) for part in parts), sums])
        with _lost_processes(self.rank, self.size):
            distributed.all_reduce(flat)
        *flat_parts, sums = flat.split([*(part.numel() for part in parts), len(sums)])
        for parameter, part in zip(parameters, flat_parts):
            parameter.grad = part.view_as(parameter)
        return sums

    def copy_first(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite the tensors of the others with those of the first process."""
        if self.size > 1:
            with _lost_processes(self.rank, self.size), torch.no_grad():
                for tensor in tensors:
                    distributed.broadcast(tensor, src=0)

    def share(self, make: Callable[[], T]) -> T:
        """What a function gives in the first process; the others do not call it, but wait."""
        value = make() if self.is_first else None
        if self.size == 1:
            assert value is not None
            return value
        values: List[Any] = [value]
        with _lost_processes(self.rank, self.size):
            distributed.broadcast_object_list(values, src=0, device=self.device)
        return values[0]

    def gather(self, value: T) -> Optional[List[T]]:
        """What all processes give, for the first one."""
        if self.size == 1:
            return [value]
        values: Optional[List[Any]] = [None] * self.size if self.is_first else None
        with _lost_processes(self.rank, self.size):
            distributed.gather_object(value, values, dst=0)
        return values


def find_device(name: str, local_rank: int = 0, setting: str = "[training] device") -> torch.device:
    """The device that a setting stands for.

    :param name: as in ``[training] device``.
    :param local_rank: number of the process on its machine; each gets a CUDA device of its own
        where the name gives no number.
    :param setting: what the user calls the name, for the message.
    :raises ValueError: there is no such device here.
    """
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        name = "cuda" if n_devices > 0 else "cpu"
    if name == "cpu":
        return torch.device("cpu")
    number = int(name.partition(":")[2] or local_rank)
    if number >= n_devices:
        raise ValueError(
            f"{setting} is {name!r}, which needs {number + 1} CUDA devices; torch finds "
            f"{n_devices} here. Expected 'cpu', 'auto' or a device that is there."
        )
    return torch.device("cuda", number)


@contextmanager
def _lost_processes(rank: int, size: int) -> Iterator[None]:
    """Make one kind of error of the many that torch raises where a process cannot be reached."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(
            f"Process {rank} of {size} lost the others ({str(error).splitlines()[0]}). One of "
            "them ended or hangs; its own message says why. Start again with --resume to go on "
            "from the last checkpoint."
        ) from error

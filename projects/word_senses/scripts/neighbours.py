"""Nearest neighbours of vectors by cosine, and how often they share a label."""

from typing import List, Sequence, Tuple

import numpy
from numpy.typing import NDArray

Floats = NDArray[numpy.float64]

# Cosines that differ by less are rounding, as those of one word's static vectors.
DECIMALS = 5


def cosines(vectors: NDArray[numpy.floating]) -> Floats:
    """Cosines of all pairs, rounded. A vector of zeros has cosine 0 with all.

    :param vectors: *Shape:* (n_vectors, width)
    :returns: *Shape:* (n_vectors, n_vectors)
    """
    unit = normalize(vectors)
    return numpy.round(unit @ unit.T, DECIMALS)


def normalize(vectors: NDArray[numpy.floating]) -> Floats:
    """Vectors of length 1. Those of zeros stay."""
    vectors = numpy.asarray(vectors, dtype=numpy.float64)
    norms = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / numpy.where(norms > 0, norms, 1.0)


def nearest(similarities: Floats, k: int) -> List[List[int]]:
    """The numbers of each row's ``k`` nearest others, the nearest first; equally near ones in an
    order that is shuffled once and for all, so that it says nothing of their labels."""
    shuffled = numpy.random.default_rng(0).permutation(len(similarities))
    found: List[List[int]] = []
    for number, row in enumerate(similarities):
        order = shuffled[numpy.argsort(-row[shuffled], kind="stable")]
        found.append([int(other) for other in order if other != number][:k])
    return found


def agreement(similarities: Floats, labels: Sequence[str], k: int) -> float:
    """The share of the ``k`` nearest neighbours (fewer, where there are fewer) that have the
    label of their vector, on average. Where several are equally near and not all of them belong
    to the ``k``, it is what choosing at random gives on average.

    :raises ValueError: there are fewer than two vectors, or ``k`` is 0.
    """
    n = len(labels)
    if n < 2 or k < 1:
        raise ValueError(f"{n} vectors, k = {k}; expected 2 or more, and 1 or more.")
    k = min(k, n - 1)
    shares: List[float] = []
    for number, row in enumerate(similarities):
        others = numpy.arange(n) != number
        near = row[others]
        same = numpy.array([label == labels[number] for label in labels])[others]
        kth = numpy.sort(near)[-k]
        nearer, tied = near > kth, near == kth
        share = same[nearer].sum() + (k - nearer.sum()) * same[tied].mean()
        shares.append(share / k)
    return float(numpy.mean(shares))


def chance(labels: Sequence[str]) -> float:
    """The agreement with neighbours that are chosen at random."""
    n = len(labels)
    counts = [labels.count(label) for label in set(labels)]
    return sum(count * (count - 1) for count in counts) / (n * (n - 1))


def project(vectors: NDArray[numpy.floating]) -> Tuple[Floats, Tuple[float, float]]:
    """The first two principal components of vectors that are scaled to length 1.

    Their signs are set so that the largest weight of each is positive, which makes the result
    the same everywhere.

    :param vectors: *Shape:* (n_vectors, width)
    :returns: *Shape:* (n_vectors, 2), and the share of the variance that either explains.
    """
    unit = normalize(vectors)
    centered = unit - unit.mean(axis=0)
    _, values, components = numpy.linalg.svd(centered, full_matrices=False)
    total = float((values**2).sum())
    points = numpy.zeros((len(unit), 2))
    shares = [0.0, 0.0]
    # What is left of equal vectors is rounding, which has no direction.
    if total > 10.0 ** (-2 * DECIMALS) * len(unit):
        for axis, (value, component) in enumerate(zip(values[:2], components)):
            sign = numpy.sign(component[numpy.abs(component).argmax()])
            points[:, axis] = centered @ (component * sign)
            shares[axis] = float(value**2) / total
    return points, (shares[0], shares[1])

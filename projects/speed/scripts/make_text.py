"""Write a text of made-up words whose frequencies are like those of English.

How fast training is depends on a text only by how many distinct words a batch has, how long they
are and how long sentences are. So this text, the same on every machine, will do for measuring.
"""

import argparse
from pathlib import Path
from random import Random
from typing import List

import numpy

ONSETS = "b d f g h k l m n p r s t v w z".split()
VOWELS = "a e i o u".split()
CODAS = ["", "", "", "n", "r", "s", "t", "l"]

# Frequent words are short: the rank up to which a word has one syllable, and two.
ONE_SYLLABLE, TWO_SYLLABLES = 50, 1000

# Zipf's law with Mandelbrot's shift. With these numbers and 30,000 words, a batch of 2 x 128 x 20
# positions has some 1,900 distinct words of 6 to 7 letters, as one of English sentences.
EXPONENT, SHIFT = 1.1, 2.7

# Words of a sentence: as many short ones as long ones.
SHORTEST, LONGEST = 4, 39


def make_words(n_words: int, random: Random) -> List[str]:
    """Distinct made-up words, by falling frequency."""
    words: List[str] = []
    known = set()
    while len(words) < n_words:
        rank = len(words) + 1
        n_syllables = 1 if rank <= ONE_SYLLABLE else 2 if rank <= TWO_SYLLABLES else 3
        parts = (map(random.choice, (ONSETS, VOWELS, CODAS)) for _ in range(n_syllables))
        word = "".join("".join(part) for part in parts)
        if word not in known:
            known.add(word)
            words.append(word)
    return words


def make_text(n_words: int, n_tokens: int, seed: int) -> str:
    """A sentence a line.

    :param n_words: distinct words, each of which is there once or more.
    :param n_tokens: words in all, the full stops not counted.
    :raises ValueError: there are fewer tokens than words.
    """
    if n_tokens < n_words:
        raise ValueError(f"n_tokens is {n_tokens}; expected at least n_words, {n_words}.")
    words = make_words(n_words, Random(seed))
    generator = numpy.random.default_rng(seed)
    weights = (numpy.arange(1.0, n_words + 1) + SHIFT) ** -EXPONENT
    drawn = generator.choice(n_words, size=n_tokens - n_words, p=weights / weights.sum())
    numbers = generator.permutation(numpy.concatenate([numpy.arange(n_words), drawn])).tolist()
    lines: List[str] = []
    begin = 0
    while begin < len(numbers):
        end = begin + int(generator.integers(SHORTEST, LONGEST + 1))
        lines.append(" ".join(words[number] for number in numbers[begin:end]) + ".\n")
        begin = end
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="Text file to write")
    parser.add_argument("--words", type=int, default=30_000, help="Distinct words")
    parser.add_argument("--tokens", type=int, default=600_000, help="Words in all")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    text = make_text(args.words, args.tokens, args.seed)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(text, encoding="utf-8")
    print(f"{args.output}: {args.tokens:,} words, {args.words:,} of them distinct")


if __name__ == "__main__":
    main()

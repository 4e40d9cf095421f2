"""Sentences with "bank" in two senses, and with "shore" and "loan", which each go with one of them.

None of them is in the text of ``projects/word_senses``.
"""

from dataclasses import dataclass
from typing import List, Sequence


@dataclass(frozen=True)
class Occurrence:
    """A word in its sentence.

    tokens (List[str]): The sentence.
    index (int): Where the word stands in it, counted from 0.
    """

    tokens: List[str]
    index: int


def _occurrences(word: str, sentences: Sequence[str]) -> List[Occurrence]:
    return [Occurrence(text.split(), text.split().index(word)) for text in sentences]


RIVER_BANK = _occurrences(
    "bank",
    [
        "They walked slowly along the bank of the river .",
        "The boat drifted to the opposite bank .",
        "We sat on the bank and looked at the water .",
        "The stream had cut deep into its sandy bank .",
        "He tied the boat to a tree on the bank .",
        "Ducks were resting on the bank under the trees .",
        "The current carried them toward the far bank .",
        "Reeds grew in the mud near the bank .",
        "She stood on the bank and called across the water .",
        "The horses swam over and climbed the other bank .",
    ],
)

MONEY_BANK = _occurrences(
    "bank",
    [
        "The bank charged them interest on the debt .",
        "She asked the bank for more credit .",
        "The bank agreed to finance the new company .",
        "He owes the bank a large amount of money .",
        "The bank paid its shareholders a small dividend .",
        "They borrowed the money from a bank in London .",
        "The central bank lowered its interest rate .",
        "The bank will lend you the rest of the price .",
        "Our company has an account with this bank .",
        "The bank lost millions on bad mortgages .",
    ],
)

SHORE = _occurrences(
    "shore",
    [
        "They walked slowly along the shore of the lake .",
        "The boat drifted to the opposite shore .",
        "The children played on the shore and looked for shells .",
        "The waves broke on the rocky shore .",
        "He pulled the canoe up on the shore .",
        "Seals were lying on the shore in the sun .",
        "The wind drove the ship toward the shore .",
        "A few huts stood near the shore .",
        "She stood on the shore and waved to the sailors .",
        "They swam back to the shore before dark .",
    ],
)

LOAN = _occurrences(
    "loan",
    [
        "The loan must be paid back within ten years .",
        "She asked for a loan to buy a house .",
        "The interest on the loan is too high .",
        "He used his farm as security for the loan .",
        "The government gave the company a loan of two million dollars .",
        "They needed a loan to pay their workers .",
        "The loan was approved last week .",
        "Our company took out a loan with a low rate .",
        "The state will guarantee the loan .",
        "He could not repay the loan in time .",
    ],
)

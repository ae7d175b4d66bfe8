"""Other words for an instruction: `paraphrase`, `typos`, `letter_case`, `word_dropout` and `wrong_object`.

Each is drawn once an episode. The rules for rephrasing and the list of objects are ours, for the vocabulary of
LIBERO; an instruction that has none of these words is left alone, which the record shows as a perturbation that
changed nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from roep_gym.wrappers.operators.base import InstructionOperator, PerturbationKey

__all__ = ["LetterCase", "Paraphrase", "Typos", "WordDropout", "WrongObject"]

_SYNONYMS: Sequence[tuple[str, Sequence[str]]] = (
    (r"pick up", ("grab", "take", "lift")),
    (r"put|place", ("set", "lay", "position")),
    (r"reach", ("touch", "go to", "move to")),
    (r"carry", ("bring", "move", "transport")),
    (r"push", ("shove", "slide", "press")),
    (r"open", ("pull open", "draw open")),
    (r"close", ("shut", "push shut")),
    (r"turn on", ("switch on", "start", "light")),
    (r"turn off", ("switch off", "stop")),
    (r"on top of", ("onto", "upon")),
    (r"both", ("the two", "all of")),
    (r"bottom", ("lowest", "lower")),
    (r"middle", ("central", "centre")),
)
"""Patterns of words, and what may stand in their place."""
_FRAMES: Sequence[str] = (
    "please {}",
    "could you {}",
    "i want you to {}",
    "your task is to {}",
    "{}, please",
    "go ahead and {}",
)
_OBJECTS: Sequence[str] = (
    "alphabet soup", "bbq sauce", "black bowl", "book", "bowl", "butter", "cabinet", "chocolate pudding",
    "cream cheese", "disc", "drawer", "frying pan", "ketchup", "microwave", "milk", "moka pot", "mug",
    "orange juice", "plate", "ramekin", "salad dressing", "stove", "tomato sauce", "tray", "wine bottle",
    "wine rack",
)  # fmt: skip
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


class Paraphrase(InstructionOperator):
    """Says the same in other words: as many synonyms as the level, then a phrase around the sentence."""

    def rewrite(self, instruction: str, level: float, key: PerturbationKey) -> str:
        """Return the rephrased instruction."""
        generator, given = key.generator(), instruction
        rewritings = max(1, round(level))
        found = [entry for entry in _SYNONYMS if re.search(rf"\b(?:{entry[0]})\b", given)]
        for index in generator.permutation(len(found))[:rewritings]:
            pattern, others = found[int(index)]
            given = re.sub(rf"\b(?:{pattern})\b", _one_of(generator, others), given, count=1)
        if len(found) < rewritings:
            given = _one_of(generator, _FRAMES).format(given)
        return given


class Typos(InstructionOperator):
    """Spells 0.1, 0.2, 0.3, 0.4, 0.5 of the words wrong, at least one: letters swapped, missing or doubled."""

    def rewrite(self, instruction: str, level: float, key: PerturbationKey) -> str:
        """Return the misspelt instruction."""
        generator, words = key.generator(), instruction.split(" ")
        long = [index for index, word in enumerate(words) if len(word) > 2]
        count = min(len(long), max(1, round(level / 10 * len(words))))
        for index in generator.permutation(len(long))[:count]:
            words[long[int(index)]] = _misspelt(words[long[int(index)]], generator)
        return " ".join(words)


class LetterCase(InstructionOperator):
    """Writes each letter in the other case with the probability 0.2, 0.4, 0.6, 0.8 and 1."""

    def rewrite(self, instruction: str, level: float, key: PerturbationKey) -> str:
        """Return the instruction in other letters."""
        drawn = key.generator().random(len(instruction)) < level / 5
        pairs = zip(instruction, drawn, strict=True)
        return "".join(letter.swapcase() if other else letter for letter, other in pairs)


class WordDropout(InstructionOperator):
    """Leaves out 0.2, 0.4, 0.6, 0.8 of the words, at least one; at level 5 the instruction is empty."""

    def rewrite(self, instruction: str, level: float, key: PerturbationKey) -> str:
        """Return the shorter instruction."""
        words = instruction.split(" ")
        count = max(1, round(level / 5 * len(words)))
        gone = set(key.generator().permutation(len(words))[:count].tolist())
        return " ".join(word for index, word in enumerate(words) if index not in gone)


class WrongObject(InstructionOperator):
    """Names another object of LIBERO in the place of one, with the probability 0.2, 0.4, 0.6, 0.8 and 1."""

    def rewrite(self, instruction: str, level: float, key: PerturbationKey) -> str:
        """Return the instruction with another object."""
        generator = key.generator()
        longest = "|".join(sorted(_OBJECTS, key=len, reverse=True))
        named = list(re.finditer(rf"\b(?:{longest})\b", instruction))
        if generator.random() >= level / 5 or not named:
            return instruction
        replaced = named[int(generator.integers(len(named)))]
        others = [name for name in _OBJECTS if name not in instruction and replaced[0] not in name]
        return instruction[: replaced.start()] + _one_of(generator, others) + instruction[replaced.end() :]


def _one_of(generator: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(generator.integers(len(choices)))]


def _misspelt(word: str, generator: np.random.Generator) -> str:
    """Return a word of three letters or more with one mistake, never the word itself."""
    place = int(generator.integers(len(word) - 1))
    letter, following = word[place], word[place + 1]
    row = next((row for row in _KEYS if letter.lower() in row), letter * 2)
    beside = row[row.index(letter.lower()) - 1] if letter.lower() in row else letter + letter
    mistakes = [
        word[:place] + following + letter + word[place + 2 :],
        word[:place] + word[place + 1 :],
        word[:place] + letter + word[place:],
        word[:place] + beside + word[place + 1 :],
    ]
    return _one_of(generator, [mistake for mistake in mistakes if mistake != word])

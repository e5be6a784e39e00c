"""Generated documents with known labels for the tests."""

import numpy as np
import pytest

TOPICS = {
    "cooking": "bread butter oven flour sugar bake knead recipe salt dough kitchen spoon".split(),
    "music": "guitar string tune chord song melody drum concert violin note piano choir".split(),
    "sport": "ball goal team match score player coach league win stadium referee cup".split(),
}
COMMON = "the a of and to in with for on is was new old good every other".split()


def documents(count, seed):
    random = np.random.default_rng(seed)
    names = list(TOPICS)
    texts, labels = [], []
    for _ in range(count):
        label = names[random.integers(len(names))]
        words = [*random.choice(TOPICS[label], 4), *random.choice(COMMON, 8)]
        if random.random() < 0.3:
            words += list(random.choice(TOPICS[names[random.integers(len(names))]], 2))
        random.shuffle(words)
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


@pytest.fixture(scope="session")
def train():
    return documents(400, 1)


@pytest.fixture(scope="session")
def test():
    return documents(150, 2)

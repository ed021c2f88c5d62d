"""Features that a classifier never saw: they count as the nearest ones that it did."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from tempograph.models.heads.fact_classifier import FactClassifier
from tempograph.models.heads.occurrence_classifier import OccurrenceClassifier
from tempograph.models.heads.occurrence_features import FEATURES, SHARED_FEATURES

SHARED = [FEATURES.index(name) for name in SHARED_FEATURES]


def test_features_are_held_in_the_range_that_was_seen() -> None:
    classifier = FactClassifier(4, shared=[2, 3])
    seen = torch.tensor([[0.0, 5.0, 0.0, 1.0], [0.0, 7.0, 0.02, 1.0], [0.3, 6.0, 0.01, 9.0]])
    classifier.set_scale(seen)
    centre, spread = seen.mean(0), seen.std(0, correction=0)
    # A small spread of a shared feature says nothing.
    spread[2] = 0.1
    expected = (seen - centre) / spread
    assert_close(classifier.scale(seen), expected)
    assert_close(classifier.scale(seen - 100), expected.amin(0).expand(3, -1))
    assert_close(classifier.scale(seen + 100), expected.amax(0).expand(3, -1))


def test_rare_values_of_shared_features_count_less() -> None:
    classifier, seen = FactClassifier(2, shared=[1]), torch.zeros(100, 2)
    seen[0] = 5.0
    classifier.set_scale(seen)
    alone, shared = classifier.scale(seen)[0].tolist()
    assert alone > 9 and shared == 2


def test_a_classifier_of_an_earlier_version_is_loaded() -> None:
    """It stored no limits: its shared features are held, and the others count as they did."""
    generator = torch.Generator().manual_seed(0)
    stored, features = OccurrenceClassifier(generator), torch.randn(50, len(FEATURES))
    for weight in stored.parameters():
        weight.data = torch.randn(weight.shape, generator=generator)
    state = {
        name: value
        for name, value in stored.state_dict().items()
        if not name.endswith((".lowest", ".highest"))
    }
    loaded = OccurrenceClassifier()
    loaded.load_state_dict(state)
    again = torch.arange(50) % 2 == 0
    features[:, SHARED] = features[:, SHARED].clamp(-2, 2)
    assert_close(loaded.log_odds(features, again), stored.log_odds(features, again))
    far, farther = features.clone(), features.clone()
    far[:, SHARED], farther[:, SHARED] = -2, -100
    assert_close(loaded.log_odds(farther, again), loaded.log_odds(far, again))
    farther[:, 0] += 100
    assert not torch.allclose(loaded.log_odds(farther, again), loaded.log_odds(far, again))

"""scikit-learn's own checks of estimators, on each of the package's."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import blockbasis as bb

COMPRESSED = bb.KernelRidge(n_clusters=3, rank=10, keep_points=False)
CHOOSING = bb.KernelRidgeClassifier(alpha=[0.1, 1.0], bandwidth="per-class", n_jobs=1)
ESTIMATORS = [bb.KernelRidge(), COMPRESSED, bb.KernelRidgeClassifier(), CHOOSING]

#: Checks that a compressed matrix, or a choice by leave-one-out, cannot pass, each with its reason.
EXPECTED = {
    COMPRESSED: {"check_sample_weight_equivalence_on_dense_data": "repeated points are clustered otherwise"},
    CHOOSING: {"check_sample_weight_equivalence_on_dense_data": "a repeated point is not left out by leaving out one"},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED.get(estimator, {}))
def test_scikit_learn(estimator, check):
    check(estimator)

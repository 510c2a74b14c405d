"""scikit-learn's own checks of estimators, on each of the package's: a check that is not met raises."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_estimators_overwrite_params, parametrize_with_checks

import blockbasis as bb

COMPRESSED = bb.KernelRidge(n_clusters=3, rank=10, keep_points=False)
CLASSES = bb.KernelRidgeClassifier()
CHOOSING = bb.KernelRidgeClassifier(alpha=[0.1, 1.0], bandwidth="per-class", n_jobs=1)
LEARNING = bb.KernelRidge(metric="auto", fit_intercept=True, n_jobs=1)
SEARCHING = bb.KernelRidgeCV(kernel="gaussian", metric=None, n_jobs=1)
SEARCHING_CLASSES = bb.KernelRidgeClassifierCV(kernel="gaussian", metric=None, n_jobs=1)
SEARCHING_METRICS = bb.KernelRidgeCV(kernel="gaussian", metric="diagonal", n_jobs=1)
SEARCHING_METRICS_OF_CLASSES = bb.KernelRidgeClassifierCV(kernel="gaussian", metric="diagonal", n_jobs=1)
SEARCHING_ALL = bb.KernelRidgeCV(n_jobs=1)
SEARCHING_ALL_CLASSES = bb.KernelRidgeClassifierCV(n_jobs=1)
#: One or two of each class; the others are in the slow tier.
RIDGES = [bb.KernelRidge(), COMPRESSED, SEARCHING, CLASSES, SEARCHING_CLASSES]
SEARCHES_OF_METRICS = [SEARCHING_METRICS, SEARCHING_METRICS_OF_CLASSES]
MORE_RIDGES = [LEARNING, CHOOSING, *SEARCHES_OF_METRICS, SEARCHING_ALL, SEARCHING_ALL_CLASSES]
OTHERS = [
    bb.GaussianProcessRegressor(bandwidth="median", mean="linear", n_clusters=3, rank=8, n_jobs=1),
    bb.BlockBasisFeatures(n_components=4, n_clusters=2, rank=5, sparse_output=False),
    bb.KernelPCA(n_components=2, n_clusters=2, rank=5),
    bb.SpectralClustering(n_clusters=2, n_blocks=3, rank=8),
]
MORE_OTHERS = [
    bb.GaussianProcessRegressor(n_jobs=1),
    bb.BlockBasisFeatures(),
    bb.KernelPCA(),
    bb.SpectralClustering(),
]


def known_to_fail(estimator):
    return EXPECTED.get(estimator, {})


#: Checks that a compressed matrix, or a choice by leave-one-out, cannot pass, each with its reason.
EXPECTED = {
    COMPRESSED: {
        "check_sample_weight_equivalence_on_dense_data": "repeated points are clustered otherwise",
        "check_fit_score_takes_y": "partial_fit goes on after a fit that kept its points",
    },
    **{
        each: {"check_sample_weight_equivalence_on_dense_data": "samples of repeated points are others"}
        for each in (LEARNING, SEARCHING, SEARCHING_CLASSES, *SEARCHES_OF_METRICS, SEARCHING_ALL, SEARCHING_ALL_CLASSES)
    },
    **{
        each: {"check_sample_weight_equivalence_on_dense_data": "a repeated point is not left out by leaving out one"}
        for each in (CLASSES, CHOOSING)
    },
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(RIDGES, expected_failed_checks=known_to_fail)
def test_ridge_estimators_meet(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(MORE_RIDGES, expected_failed_checks=known_to_fail)
def test_ridge_estimators_with_other_parameters_meet(estimator, check):
    check(estimator)


@parametrize_with_checks(OTHERS)
def test_other_estimators_meet(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(MORE_OTHERS)
def test_other_estimators_with_other_parameters_meet(estimator, check):
    check(estimator)


def test_a_check_that_is_not_met_raises():
    class Careless(bb.KernelPCA):
        def fit(self, X, y=None):
            self.n_components = 1
            return super().fit(X, y)

    check_estimators_overwrite_params("KernelPCA", bb.KernelPCA(n_components=2))
    with pytest.raises(AssertionError, match="n_components"):
        check_estimators_overwrite_params("Careless", Careless(n_components=2))

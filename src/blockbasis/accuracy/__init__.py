"""Errors of approximations in the Frobenius and the spectral norm, and statistics of spectra."""

from blockbasis.accuracy.adjoint import dot_test as dot_test
from blockbasis.accuracy.frobenius import relative_error as relative_error
from blockbasis.accuracy.spectral import SpectralApproximation as SpectralApproximation
from blockbasis.accuracy.spectral import spectral_approximation as spectral_approximation
from blockbasis.accuracy.spectral import spectral_error as spectral_error
from blockbasis.accuracy.spectrum import SpectralEstimate as SpectralEstimate
from blockbasis.accuracy.spectrum import leverage_scores as leverage_scores
from blockbasis.accuracy.spectrum import numerical_rank as numerical_rank
from blockbasis.accuracy.spectrum import spectral_norm as spectral_norm
from blockbasis.accuracy.spectrum import stable_rank as stable_rank
from blockbasis.operators.error_estimate import ErrorEstimate as ErrorEstimate

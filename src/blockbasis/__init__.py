"""Kernel matrices in linear time and memory, across bandwidths: the Block Basis Factorization."""

from blockbasis.accuracy import ErrorEstimate as ErrorEstimate
from blockbasis.accuracy import dot_test as dot_test
from blockbasis.accuracy import relative_error as relative_error
from blockbasis.estimators.classifier import KernelRidgeClassifier as KernelRidgeClassifier
from blockbasis.estimators.gaussian_process import GaussianProcessRegressor as GaussianProcessRegressor
from blockbasis.estimators.kernel_pca import KernelPCA as KernelPCA
from blockbasis.estimators.ridge import KernelRidge as KernelRidge
from blockbasis.estimators.spectral_clustering import SpectralClustering as SpectralClustering
from blockbasis.exceptions import AccuracyWarning as AccuracyWarning
from blockbasis.exceptions import PerformanceWarning as PerformanceWarning
from blockbasis.factorize import factorize as factorize
from blockbasis.factorize import factorize_cross as factorize_cross
from blockbasis.factorize import plan as plan
from blockbasis.kernels import Cauchy as Cauchy
from blockbasis.kernels import Gaussian as Gaussian
from blockbasis.kernels import InverseMultiquadric as InverseMultiquadric
from blockbasis.kernels import Laplacian as Laplacian
from blockbasis.kernels import Matern as Matern
from blockbasis.kernels import RationalQuadratic as RationalQuadratic
from blockbasis.kernels import White as White
from blockbasis.measures import SpectralApproximation as SpectralApproximation
from blockbasis.measures import spectral_approximation as spectral_approximation
from blockbasis.measures import spectral_error as spectral_error
from blockbasis.operators.block_basis import BlockBasis as BlockBasis
from blockbasis.operators.cross import CrossBlockBasis as CrossBlockBasis
from blockbasis.operators.exact import ExactCrossKernel as ExactCrossKernel
from blockbasis.operators.exact import ExactKernel as ExactKernel
from blockbasis.operators.storage import StorageError as StorageError
from blockbasis.operators.storage import load as load
from blockbasis.operators.storage import save as save
from blockbasis.partition import Partition as Partition
from blockbasis.planning.plan import Plan as Plan
from blockbasis.progress import ProgressEvent as ProgressEvent
from blockbasis.solvers.direct import RidgeSystem as RidgeSystem
from blockbasis.solvers.eigen import Eigenpairs as Eigenpairs
from blockbasis.solvers.eigen import eigh as eigh
from blockbasis.solvers.iterative import Solution as Solution
from blockbasis.solvers.iterative import exact_solve as exact_solve
from blockbasis.solvers.iterative import solve as solve
from blockbasis.spectrum import SpectralEstimate as SpectralEstimate
from blockbasis.spectrum import leverage_scores as leverage_scores
from blockbasis.spectrum import numerical_rank as numerical_rank
from blockbasis.spectrum import spectral_norm as spectral_norm
from blockbasis.spectrum import stable_rank as stable_rank

__version__ = "0.1.0"

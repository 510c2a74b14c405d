"""Kernels: frozen value objects that evaluate blocks of a kernel matrix.

The package has radial kernels with one length or with one length for each column, metrics, sums, products and positive
multiples of kernels, white noise, and kernels from functions of the user.
"""

from blockbasis.kernels.base import Kernel as Kernel
from blockbasis.kernels.combined import Product as Product
from blockbasis.kernels.combined import Scaled as Scaled
from blockbasis.kernels.combined import Sum as Sum
from blockbasis.kernels.combined import White as White
from blockbasis.kernels.convert import as_kernel as as_kernel
from blockbasis.kernels.convert import from_sklearn as from_sklearn
from blockbasis.kernels.distances import squared_distances as squared_distances
from blockbasis.kernels.function import CallableKernel as CallableKernel
from blockbasis.kernels.metric import WithMetric as WithMetric
from blockbasis.kernels.radial import RadialKernel as RadialKernel
from blockbasis.kernels.radial import kernel_parameters as kernel_parameters
from blockbasis.kernels.stationary import RADIAL_KERNELS as RADIAL_KERNELS
from blockbasis.kernels.stationary import Cauchy as Cauchy
from blockbasis.kernels.stationary import Gaussian as Gaussian
from blockbasis.kernels.stationary import InverseMultiquadric as InverseMultiquadric
from blockbasis.kernels.stationary import Laplacian as Laplacian
from blockbasis.kernels.stationary import Matern as Matern
from blockbasis.kernels.stationary import RationalQuadratic as RationalQuadratic

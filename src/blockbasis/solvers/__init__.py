"""Linear systems with factorizations and with exact kernel matrices, and eigenpairs of factorizations."""

from blockbasis.solvers.eigen import Eigenpairs as Eigenpairs
from blockbasis.solvers.eigen import eigh as eigh
from blockbasis.solvers.iterative import Solution as Solution
from blockbasis.solvers.iterative import exact_solve as exact_solve
from blockbasis.solvers.iterative import solve as solve
from blockbasis.solvers.ridge_system import RidgeSystem as RidgeSystem

"""Systems with factorizations and with exact kernel matrices."""

from blockbasis.solvers.direct import RidgeSystem as RidgeSystem

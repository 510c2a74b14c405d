"""Points to try things on."""

from blockbasis.datasets.synthetic import unit_cube_mixture as unit_cube_mixture

"""Data sets of the paper, synthetic data, and readers of data files."""

from blockbasis.datasets.cache import DatasetError as DatasetError
from blockbasis.datasets.cache import cache_directory as cache_directory
from blockbasis.datasets.dataset import Dataset as Dataset
from blockbasis.datasets.dataset import standardized as standardized
from blockbasis.datasets.files import load_file as load_file
from blockbasis.datasets.loading import NAMES as NAMES
from blockbasis.datasets.loading import find as find
from blockbasis.datasets.loading import load as load
from blockbasis.datasets.synthetic import alternating_clusters as alternating_clusters
from blockbasis.datasets.synthetic import circles_in_circle as circles_in_circle
from blockbasis.datasets.synthetic import nested_clusters as nested_clusters
from blockbasis.datasets.synthetic import overlapping_clusters as overlapping_clusters
from blockbasis.datasets.synthetic import unit_cube_mixture as unit_cube_mixture

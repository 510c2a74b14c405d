"""Names of `blockbasis.operators.storage` under their former path."""

from blockbasis.operators.storage import FORMAT as FORMAT
from blockbasis.operators.storage import VERSION as VERSION
from blockbasis.operators.storage import Storable as Storable
from blockbasis.operators.storage import StorageError as StorageError
from blockbasis.operators.storage import describe_kernel as describe_kernel
from blockbasis.operators.storage import describe_symmetric as describe_symmetric
from blockbasis.operators.storage import load as load
from blockbasis.operators.storage import restore_kernel as restore_kernel
from blockbasis.operators.storage import restore_symmetric as restore_symmetric
from blockbasis.operators.storage import save as save
from blockbasis.operators.storage import storable as storable
from blockbasis.operators.storage import useless_kernel as useless_kernel

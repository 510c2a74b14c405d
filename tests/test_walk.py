from __future__ import annotations

import ast

from tools import walk


def test_only_imports_that_run_when_a_module_is_loaded_count():
    code = """
if TYPE_CHECKING:
    from a import types
else:
    from b import others
try:
    import c
except ImportError:
    import d
def later():
    import e
class C:
    import f
"""
    loaded = [ast.unparse(node) for node in walk.loaded_statements(ast.parse(code).body)]
    imports = [line for line in loaded if line.startswith(("import", "from"))]
    assert imports == ["from b import others", "import c", "import d", "import f"]


def test_the_longest_chain_of_a_graph():
    assert walk.longest_chain({"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": set()}) == ["a", "b", "c"]


def test_the_modules_of_the_package_that_another_one_imports_are_found():
    graph = walk.imports()
    assert "blockbasis.kernels.base" in graph["blockbasis.kernels.radial"]
    assert "blockbasis.tables.fitting" not in graph["blockbasis.tables.checks"]  # a type alone


def test_chains_of_imports_are_not_longer_than_they_were():
    assert len(walk.longest_chain(walk.imports())) <= 22


def test_functions_that_a_factorization_calls_are_counted():
    found = walk.walk(n_points=300, tol=0.1)
    assert {"_api.py", "partition.py", "construction/pipeline.py"} <= found.files
    assert 0 < len(found.edges) <= found.jumps

"""Files of LLVM are compiled together only where neither has a name for itself that occurs in the other."""

import pytest

pytest.importorskip("ziglang")

from nvptx.build import local_names, together

FIRST = """
static cl::opt<bool> Verbose("verbose", cl::init(false));
namespace {
class Walk { void step(); };
int depth(int node) { return node; }
}
STATISTIC(Walked, "nodes");
"""
CALLS_ITS_OWN = 'int llvm::depth_of(int node) { return node; } // Verbose, Walk\nconst char *says = "depth";'
NAMES_ANOTHER = "int llvm::use(int node) { return depth(node); }"


def test_local_names_are_statics_counters_and_what_has_no_namespace():
    found = local_names(FIRST)
    assert {"Verbose", "Walk", "depth", "Walked"} <= found
    assert "step" not in found


def test_a_file_that_uses_the_name_is_compiled_apart(tmp_path):
    paths = []
    for name, text in (("first", FIRST), ("own", CALLS_ITS_OWN), ("another", NAMES_ANOTHER)):
        paths.append(tmp_path / f"{name}.cpp")
        paths[-1].write_text(text)
    first, own, another = paths
    assert together(paths) == [[first, own], [another]]

"""The include check accepts the project as it is and catches each kind of violation."""

import check_includes
import pytest


def problems_of(tmp_path, files):
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return check_includes.find_problems(tmp_path)


def test_the_project_follows_its_rules():
    assert check_includes.find_problems() == []


def test_allowed_includes_pass(tmp_path):
    files = {
        "src/base/a.h": "#include <vector>\n",
        "src/ops/b.h": '#include "base/a.h"\n',
        "src/graph/g.cpp": '#include "base/a.h"\n#include "ops/b.h"\n',
        "src/kernels/onednn/launch.cpp": '#include "ops/b.h"\n#include <oneapi/dnnl/dnnl.hpp>\n',
        "src/compiler/build.cpp": '#include "graph/g.h"\n',
    }
    assert problems_of(tmp_path, files) == []


@pytest.mark.parametrize(
    ("source", "header"),
    [
        ("src/base/a.cpp", "ops/x.h"),
        ("src/ops/a.cpp", "graph/x.h"),
        ("src/device/cpu/a.cpp", "graph/x.h"),
        ("src/program/a.cpp", "graph/x.h"),
        ("src/passes/a.cpp", "import/x.h"),
        ("src/import/a.cpp", "passes/x.h"),
        ("src/graph/a.cpp", "compiler/x.h"),
        ("src/kernels/onednn/launch.cpp", "graph/x.h"),
        ("src/kernels/onednn/launch.cpp", "kernels/onednn/offer.h"),
        ("src/plan/a.cpp", "runtime/x.h"),
        ("src/runtime/a.cpp", "engine/writer.h"),
    ],
)
def test_wrong_direction_is_caught(tmp_path, source, header):
    files = {source: f'#include "{header}"\n', f"src/{header}": ""}
    assert any(header in problem for problem in problems_of(tmp_path, files))


def test_an_unknown_folder_needs_a_rule(tmp_path):
    assert "has no rule" in problems_of(tmp_path, {"src/newroom/a.cpp": ""})[0]


def test_the_runtime_reaches_no_graph_code_through_a_chain(tmp_path):
    files = {
        "src/runtime/a.cpp": '#include "runtime/a.h"\n',
        "src/runtime/a.h": '#include "graph/g.h"\n',
        "src/graph/g.h": "",
    }
    found = [problem for problem in problems_of(tmp_path, files) if "runtime library" in problem]
    assert found == ["the runtime library reaches graph: runtime/a.cpp -> runtime/a.h -> graph/g.h"]


def test_the_runtime_reaches_no_protobuf(tmp_path):
    files = {"src/engine/reader.cpp": "#include <google/protobuf/message.h>\n"}
    assert any("runtime library reaches <google/protobuf" in problem for problem in problems_of(tmp_path, files))


def test_folders_that_include_each_other_are_caught(tmp_path):
    files = {"src/graph/a.h": '#include "ops/b.h"\n', "src/ops/b.h": '#include "graph/a.h"\n'}
    assert any("graph and ops include each other" in problem for problem in problems_of(tmp_path, files))


@pytest.mark.parametrize(
    ("source", "header"),
    [
        ("src/runtime/a.cpp", "cuda_runtime.h"),
        ("src/passes/a.cpp", "oneapi/dnnl/dnnl.hpp"),
        ("src/import/a.cpp", "onnx-ml.pb.h"),
        ("src/codegen/ir.cpp", "llvm/IR/Module.h"),
        ("cli/main.cpp", "cudnn.h"),
    ],
)
def test_vendor_headers_stay_in_their_folders(tmp_path, source, header):
    assert any("belongs only under" in problem for problem in problems_of(tmp_path, {source: f"#include <{header}>\n"}))

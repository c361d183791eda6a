// Renamed ops and single changes.
#include "import/onnx/node_import.h"

namespace deepjit::importer {

namespace {

void scatter(NodeImport& node) { node.finish("ScatterElements", node.inputs, node.attrs); }

void dft(NodeImport& node) {
  if (node.version < 20) {
    const int64_t axis = node.attrs.get_int("axis", 1);
    node.attrs.erase("axis");
    node.set_input(2, node.constant(Tensor::vector_i64(std::vector{axis}).reshaped({})));
  }
  node.finish();
}

}  // namespace

void add_misc_handlers(HandlerMap& map) {
  map["Scatter"] = scatter;
  map["DFT"] = dft;
}

}  // namespace deepjit::importer

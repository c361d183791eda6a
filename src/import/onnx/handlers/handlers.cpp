#include "import/onnx/node_import.h"

namespace deepjit::importer {

Handler find_handler(const std::string& op) {
  static const HandlerMap map = [] {
    HandlerMap out;
    add_constant_handlers(out);
    add_axes_handlers(out);
    add_norm_handlers(out);
    add_image_handlers(out);
    add_misc_handlers(out);
    add_control_handlers(out);
    add_sequence_handlers(out);
    add_microsoft_handlers(out);
    add_ml_handlers(out);
    add_tree_handlers(out);
    add_training_handlers(out);
    return out;
  }();
  const auto found = map.find(op);
  return found == map.end() ? nullptr : found->second;
}

}  // namespace deepjit::importer

// DynamicQuantizeLSTM: an LSTM with int8 weights.
#include "import/onnx/microsoft/families.h"

namespace deepjit::importer {

namespace {

// X, W, R, B, sequence_lens, initial_h, initial_c, P, W_scale, W_zero_point, R_scale, R_zero_point. The weights are
// [directions, in, 4 * hidden]; the canonical op has them as LSTM has.
void dynamic_quantize_lstm(NodeImport& node) {
  const Emit emit(node);
  std::vector<Value*> inputs = node.inputs;
  for (size_t i : {1, 2}) inputs[i] = emit.transpose(node.require_input(i), {0, 2, 1});
  for (size_t i : {8, 10}) node.require_input(i);
  node.finish("deepjit.DynamicQuantizeLSTM", std::move(inputs), node.attrs);
}

}  // namespace

void add_microsoft_lstm_handlers(HandlerMap& map) { map["com.microsoft.DynamicQuantizeLSTM"] = dynamic_quantize_lstm; }

}  // namespace deepjit::importer

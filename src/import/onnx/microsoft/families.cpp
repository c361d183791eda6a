#include "import/onnx/microsoft/families.h"

namespace deepjit::importer {

void add_microsoft_handlers(HandlerMap& map) {
  add_microsoft_activation_handlers(map);
  add_microsoft_norm_handlers(map);
  add_microsoft_product_handlers(map);
  add_microsoft_nbits_handlers(map);
  add_microsoft_conv_handlers(map);
  add_microsoft_quantized_handlers(map);
  add_microsoft_lstm_handlers(map);
  add_microsoft_attention_handlers(map);
  add_microsoft_group_query_handlers(map);
}

}  // namespace deepjit::importer

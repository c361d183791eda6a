// The handlers of ONNX Runtime's own domain, com.microsoft: each operator as the canonical ops that express it.
#pragma once

#include "import/onnx/microsoft/emit.h"

namespace deepjit::importer {

void add_microsoft_activation_handlers(HandlerMap& map);
void add_microsoft_norm_handlers(HandlerMap& map);
void add_microsoft_product_handlers(HandlerMap& map);
void add_microsoft_nbits_handlers(HandlerMap& map);
void add_microsoft_conv_handlers(HandlerMap& map);
void add_microsoft_quantized_handlers(HandlerMap& map);
void add_microsoft_lstm_handlers(HandlerMap& map);
void add_microsoft_attention_handlers(HandlerMap& map);
void add_microsoft_group_query_handlers(HandlerMap& map);

// The activation that `name` and the attributes activation_params or activation_alpha, _beta describe. An empty name
// is none at all; Error(UNSUPPORTED_OP) for one that is not known.
Value* fused_activation(const Emit& emit, Value* x, const std::string& name);

}  // namespace deepjit::importer

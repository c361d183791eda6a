// Bytes to ONNX's own protobuf message, with all the checks that the importer makes first.
#pragma once

#include "import/importer.h"
#include "onnx-ml.pb.h"

namespace deepjit::importer {

// Throws PARSE, TRUNCATED, LIMIT or DEPTH; a hostile file never gets as far as an allocation of its choice.
void parse_onnx(std::span<const uint8_t> bytes, const ImportOptions& options, onnx::ModelProto& model);

}  // namespace deepjit::importer

#include "import/importer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <climits>
#include <new>

#include "base/file.h"
#include "graph/infer.h"
#include "import/onnx/builder.h"
#include "import/onnx/parse.h"
#include "import/onnx/text.h"
#include "import/onnx/wire_scan.h"

namespace deepjit {

namespace {

using importer::Builder;
using importer::quoted;

// Do the element types agree, those of elements too?
bool same_dtypes(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || (a.element == nullptr) != (b.element == nullptr)) return false;
  return a.element == nullptr || same_dtypes(*a.element, *b.element);
}

// The declared type of an output against the inferred one; only what is certain counts.
void check_output(const Value& value, const TensorType& declared) {
  if (declared.dtype == DType::UNDEFINED) return;
  const Node* producer = value.producer;
  const std::string where = producer == nullptr ? "" : "node " + quoted(producer->name) + " (" + producer->op + "): ";
  if (!same_dtypes(declared, value.type)) {
    const bool plain = declared.element == nullptr && value.type.element == nullptr;
    const auto text = [&](const TensorType& type) {
      return plain ? std::string(dtype_name(type.dtype)) : type.to_string();
    };
    throw Error(Code::TYPE, where + "output " + quoted(value.name) + " is declared " + text(declared) +
                                ", its element type is " + text(value.type));
  }
  const Shape& got = value.type.shape;
  if (!declared.shape.ranked() || !got.ranked()) return;
  bool fits = got.rank() == declared.shape.rank();
  for (int i = 0; fits && i < got.rank(); ++i) {
    fits = !got[i].is_const() || !declared.shape[i].is_const() || got[i] == declared.shape[i];
  }
  if (!fits) {
    throw Error(Code::SHAPE_MISMATCH, where + "output " + quoted(value.name) + " is declared " +
                                          declared.shape.to_string() + ", its shape is " + got.to_string());
  }
}

ImportedModel import_parsed(onnx::ModelProto& proto, const ImportOptions& options) {
  ImportedModel out;
  out.graph = std::make_unique<Graph>();
  Builder builder(options, proto, *out.graph);
  builder.build();
  out.graph->drop_unused_constants();
  infer_types(*out.graph);
  for_each_graph(*out.graph, [](const Graph& graph) {
    graph.for_each_value([](const Value* value) {
      if (value->producer == nullptr) return;
      importer::check_bytes(value->type, "node " + quoted(value->producer->name) + " (" + value->producer->op +
                                             "): output " + quoted(value->name));
    });
  });
  for (int i = 0; i < proto.graph().output_size(); ++i) {
    check_output(*out.graph->outputs[static_cast<size_t>(i)], builder.type_from_proto(proto.graph().output(i)));
  }
  for (const auto& entry : proto.metadata_props()) {
    importer::check_name(entry.key(), "metadata key");
    out.metadata[entry.key()] = entry.value();
  }
  out.opset = builder.default_opset();
  out.user_ops = builder.user_ops();
  out.ir_version = proto.ir_version();
  out.producer = proto.producer_name();
  if (!proto.producer_version().empty()) out.producer += " " + proto.producer_version();
  return out;
}

}  // namespace

void importer::parse_onnx(std::span<const uint8_t> bytes, const ImportOptions& options, onnx::ModelProto& model) {
  if (bytes.size() > static_cast<size_t>(limits::model_bytes)) {
    throw Error(Code::LIMIT, "the model is " + std::to_string(bytes.size()) + " bytes, protobuf's limit is 2 GiB",
                "keep the weights in external data");
  }
  scan_wire(bytes, options);
  google::protobuf::LogSilencer silence;
  google::protobuf::io::CodedInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(INT_MAX);
  // A subgraph takes three levels of messages.
  stream.SetRecursionLimit(3 * options.max_depth + 100);
  if (!model.ParsePartialFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw Error(Code::PARSE, "the bytes are not a valid ONNX protobuf",
                "check that the file is an ONNX model and was transferred in binary");
  }
  if (!model.has_graph()) throw Error(Code::PARSE, "the bytes hold no ONNX graph");
}

ImportedModel import_onnx(std::span<const uint8_t> bytes, const ImportOptions& options) {
  try {
    onnx::ModelProto model;
    importer::parse_onnx(bytes, options, model);
    return import_parsed(model, options);
  } catch (const std::bad_alloc&) {
    throw Error(Code::HOST_OOM, "host memory is exhausted while the model is imported");
  }
}

ImportedModel import_onnx_file(const std::string& path, const ImportOptions& options) {
  const FileBytes file = read_plain_file(path);
  ImportOptions with_folder = options;
  if (with_folder.folder.empty()) {
    const size_t slash = path.rfind('/');
    with_folder.folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  }
  return import_onnx(file.bytes, with_folder);
}

}  // namespace deepjit

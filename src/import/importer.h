// ONNX bytes or file to a typed Graph in canonical form.
//
// Guarantees: every node is an op of the registry or If, Loop, Scan, in the newest opset's form; functions are
// inlined; every value has a type; nothing outside the model's folder is read. Sizes are checked before memory
// is taken, so a hostile model ends in an Error and no more. Errors name the node.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "graph/graph.h"

namespace deepjit {

struct UserOp;

struct ImportOptions {
  int64_t max_nodes = limits::model_nodes;
  int max_depth = limits::graph_depth;
  int max_loop_depth = limits::loop_depth;
  int64_t max_inlined_bytes = limits::inlined_bytes;
  int64_t max_external_bytes = limits::external_bytes;
  int64_t max_sparse_bytes = limits::sparse_bytes;
  std::string folder;                     // external data lies here; empty: external data is refused
  std::shared_ptr<const UserOp> user_op;  // known besides the registered ones, and before them
};

// A user op that the model has nodes of.
struct UserOpUse {
  std::string definition;          // its text
  std::vector<std::string> nodes;  // as origins name them
};

struct ImportedModel {
  std::unique_ptr<Graph> graph;
  std::map<std::string, std::string> metadata;  // the model's metadata_props
  int64_t opset = 0;                            // of the default domain
  int64_t ir_version = 0;
  std::string producer;                       // name and version
  std::map<std::string, UserOpUse> user_ops;  // by name
};

ImportedModel import_onnx(std::span<const uint8_t> bytes, const ImportOptions& options = {});
// The folder of `path` is the folder for external data unless options.folder is set.
ImportedModel import_onnx_file(const std::string& path, const ImportOptions& options = {});

}  // namespace deepjit

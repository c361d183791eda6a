// Every limit that guards against hostile or careless models and engines, in one table.
//
// A limit is a constant, limits::graph_depth, and a row of what `deepjit limits` and docs/limits.md print. What goes
// past it gets the error of the row; OK stands for limits where the work is left for run time instead.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"

namespace deepjit {

// X(stage, name, value, unit, error, why)
#define DEEPJIT_LIMIT_TABLE(X)                                                                                       \
  X("import", model_bytes, 2147483647, "bytes", LIMIT, "protobuf holds no larger message; external data may")        \
  X("import", model_nodes, 1000000, "nodes", LIMIT, "functions inlined; one in a Loop counts thrice a level")        \
  X("import", model_messages, 4000000, "messages", LIMIT, "a message of two bytes takes hundreds in memory")         \
  X("import", model_strings, 16000000, "strings", LIMIT, "an empty string takes some forty bytes in memory")         \
  X("import", inlined_bytes, 1073741824, "bytes", LIMIT, "functions that call functions twice grow exponentially")   \
  X("import", graph_depth, 64, "levels", DEPTH, "subgraphs and function calls are walked by recursion")              \
  X("import", loop_depth, 8, "levels", DEPTH, "each level of Loop and Scan is typed up to three times")              \
  X("import", name_bytes, 65536, "bytes", LIMIT, "a name of a model is for people")                                  \
  X("import", made_name_bytes, 1024, "bytes", OK, "longer names of inlined nodes lose their front")                  \
  X("import", external_bytes, 68719476736, "bytes", LIMIT, "external data of all tensors of a model together")       \
  X("import", sparse_bytes, 1073741824, "bytes", LIMIT, "sparse tensors of a model together, when expanded")         \
  X("shapes", rank, 16, "dims", LIMIT, "a shape is stored in place")                                                 \
  X("shapes", dim_terms, 1024, "terms", LIMIT, "of a symbolic dim, which is a polynomial")                           \
  X("shapes", dim_products, 4096, "products", LIMIT, "of terms when two symbolic dims are multiplied")               \
  X("shapes", dim_factors, 64, "factors", LIMIT, "of one term; repeated squaring doubles them")                      \
  X("shapes", dim_bytes, 8192, "bytes", LIMIT, "of a nested min, max or division, written out")                      \
  X("shapes", dim_depth, 256, "levels", LIMIT, "nested min, max and division are walked by recursion")               \
  X("passes", fold_result_bytes, 67108864, "bytes", OK, "one result of constant folding")                            \
  X("passes", fold_free_bytes, 1048576, "bytes", OK, "a smaller result may be any multiple of its inputs")           \
  X("passes", fold_growth, 4, "times", OK, "a larger result may be that much larger than its inputs")                \
  X("passes", fold_total_bytes, 1073741824, "bytes", OK, "that folding adds, beyond four times a model's constants") \
  X("passes", fold_work, 4294967296, "steps", OK, "of folding all together; some seconds")                           \
  X("passes", pass_rounds, 8, "rounds", OK, "passes that enable each other are repeated at most so often")           \
  X("engine", engine_sections, 64, "sections", ENGINE_RANGE, "of a file")                                            \
  X("engine", engine_depth, 128, "levels", ENGINE_RANGE, "nested blocks are walked by recursion")                    \
  X("engine", engine_threads, 4096, "threads", ENGINE_RANGE, "an engine may ask for")                                \
  X("runtime", bindings, 32, "shapes", OK, "a context remembers, the latest ones")                                   \
  X("runtime", body_bindings, 16, "shapes", OK, "a Loop, Scan or If remembers, the latest ones")                     \
  X("runtime", value_elements, 64, "elements", OK, "of an input whose value decides shapes, to bind by value")       \
  X("runtime", known_elements, 4096, "elements", OK, "of one result that is computed while binding")

namespace limits {

#define X(stage, name, value, unit, error, why) constexpr int64_t name = value;
DEEPJIT_LIMIT_TABLE(X)
#undef X

}  // namespace limits

// One row of the table.
struct Limit {
  std::string_view stage;
  std::string_view name;
  int64_t value;
  std::string_view unit;
  Code error;  // OK: not an error
  std::string_view why;
};

// The table, in its order.
std::span<const Limit> limit_table();

}  // namespace deepjit

// What passes share: looking at a value, and replacing it without losing types or output names.
#pragma once

#include <initializer_list>
#include <optional>

#include "graph/graph.h"

namespace deepjit {

// --- looking ---

// The node that makes `value` when it is an `op`, else nullptr.
Node* producer_of(const Value* value, std::string_view op);
// The only reader of `value`: nullptr when there are several uses, it is a graph output, or the reader is
// in a nested body.
Node* only_user(const Value* value);
// The one element of a numeric constant with one element, of any rank.
std::optional<double> scalar_of(const Value* value);
bool is_scalar(const Value* value, double expected);
// True for a numeric constant whose elements all equal `expected`.
bool all_equal(const Value* value, double expected);
// Integers of a constant or of a value known through shape arithmetic.
std::optional<std::vector<int64_t>> known_ints(const Value* value);
// Same dtype, and shapes that are equal for sure.
bool same_type(const Value* a, const Value* b);
bool ranked(const Value* value);
// Ranked, of float16 or bfloat16.
bool is_16_bit(const Value* value);

// --- changing ---

// A new node's output (see Graph::insert), with its type inferred.
Value* emit(Node* position, const std::string& op, std::vector<Value*> inputs, Attributes attrs, const Node* like);
Value* emit_constant(const Node* near, Tensor tensor, const std::string& name = "");
Value* emit_ints(const Node* near, const std::vector<int64_t>& values);
// A constant of `dtype` with one element and the given rank.
Value* emit_scalar(const Node* near, DType dtype, double value, int rank = 0);

// The constant operand that makes Reshape turn `from` into `to`: 0 for a dim at its own place, -1 for one
// that is not known; nothing when more would be needed.
std::optional<std::vector<int64_t>> reshape_target(const Shape& from, const std::vector<Dim>& to);
// A Reshape of x to `to` by a constant, or nullptr when there is none.
Value* emit_reshape(Node* position, Value* x, const std::vector<Dim>& to, const Node* like);

// Can readers of `from` read `to` instead? No when `from` is an output of the outermost graph and `to`
// cannot take its name (an input, another output, a value of an inner graph).
bool replaceable(const Value* from, const Value* to);
// Readers of `from` read `to` from now on; `to` takes the name when `from` is an output of the outermost
// graph, and what is known of the type of `from`. Both must be equal in value. Needs replaceable().
void replace_value(Value* from, Value* to);
// replace_value for a node's only output, then erases the node; false (and no change) when not replaceable.
bool replace_node(Node* node, Value* to);

}  // namespace deepjit

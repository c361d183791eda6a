#include "passes/cleanup/casts.h"

#include "passes/edit.h"

namespace deepjit {

namespace {

// Bits of magnitude that a type holds exactly; 0 for types that take no part.
int exact_bits(DType t) {
  switch (t) {
    case DType::BOOL:
      return 1;
    case DType::INT8:
      return 7;
    case DType::UINT8:
    case DType::BFLOAT16:
      return 8;
    case DType::FLOAT16:
      return 11;
    case DType::INT16:
      return 15;
    case DType::UINT16:
      return 16;
    case DType::FLOAT32:
      return 24;
    case DType::INT32:
      return 31;
    case DType::UINT32:
      return 32;
    case DType::FLOAT64:
      return 53;
    case DType::INT64:
      return 63;
    case DType::UINT64:
      return 64;
    default:
      return 0;
  }
}

}  // namespace

bool cast_is_exact(DType from, DType to) {
  if (from == to) return true;
  const int a = exact_bits(from);
  const int b = exact_bits(to);
  if (a == 0 || b == 0 || to == DType::BOOL) return false;
  if (is_float(from)) {
    if (to == DType::FLOAT64) return true;
    return to == DType::FLOAT32 && from != DType::FLOAT64;
  }
  // The most negative signed value is a power of two: it needs no bit more in a float.
  if (is_float(to)) return a <= b;
  if (is_signed_integer(from)) return is_signed_integer(to) && a <= b;
  return a <= b;
}

bool merge_casts(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    Node* inner = node->op == "Cast" ? producer_of(node->input(0), "Cast") : nullptr;
    if (inner == nullptr) continue;
    Value* x = inner->input(0);
    const DType target = node->output()->type.dtype;
    if (!cast_is_exact(x->type.dtype, inner->output()->type.dtype) || exact_bits(target) == 0) continue;
    if (x->type.dtype == target) {
      changed = replace_node(node, x) || changed;
    } else {
      graph.set_input(node, 0, x);
      changed = true;
    }
  }
  return changed;
}

}  // namespace deepjit

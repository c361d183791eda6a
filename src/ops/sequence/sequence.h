// Sequences and optionals: tensors whose elements are tensors (see DType). What the ops of this family, type inference
// and the runtime share about them.
//
// How many elements there are is data, not shape: a binding never depends on it. Of an element type only constant dims
// say something; two elements of one sequence need not agree where it has a symbol.
#pragma once

#include <functional>

#include "ops/op.h"

namespace deepjit {

inline bool is_collection(DType dtype) { return dtype == DType::SEQUENCE || dtype == DType::OPTIONAL; }

// Ops that take sequences or optionals as operands; all others take tensors only.
bool takes_collections(std::string_view op);

// The type that holds for both: equal constant dims stay, others become fresh. Throws Error(TYPE) naming `what` when
// the element types differ.
using FreshDim = std::function<Dim()>;
TensorType common_type(const TensorType& a, const TensorType& b, const FreshDim& fresh, std::string_view what);

// A collection of `count` elements of this type.
TensorType collection_type(DType dtype, Dim count, TensorType element);

// The element type with a fresh dim wherever it has no constant: what one particular element is known to be.
TensorType element_type(InferContext& ctx, int i);

// A copy that owns its data. Tensors inside share theirs.
Tensor owned_copy(const TensorView& view);

// The parts of the family, one a file.
void add_sequence_ops(OpRegistry& registry);        // all of them
void add_sequence_basic_ops(OpRegistry& registry);  // sequence.cpp: SequenceConstruct, Empty, At, Insert, Erase, Length
void add_sequence_split_ops(OpRegistry& registry);  // split.cpp: SplitToSequence, ConcatFromSequence
void add_optional_ops(OpRegistry& registry);        // optional.cpp: Optional, OptionalHasElement, OptionalGetElement

}  // namespace deepjit

// oneDNN memory: engine and stream, descriptors of plain tensors, and descriptors as text.
//
// The text of a packed operand is "f32:16x3x3x3:ABcd16b16a:abcd": element type, logical dims, the layout of the
// stored bytes and the layout of the plain ONNX tensor in the same logical dims. It is all that a later process
// needs to read the operand back.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "base/tensor.h"

namespace deepjit::onednn {

using dnnl::memory;

const dnnl::engine& engine();  // one a process
dnnl::stream& stream();        // one a thread

memory::dims to_dims(std::span<const int64_t> dims);
// The oneDNN element type, or undef when there is none.
memory::data_type to_data_type(DType dtype);

// Dense row-major.
memory::desc plain_desc(DType dtype, std::span<const int64_t> dims);
// Logical dims of a dense row-major tensor whose k-th dim in memory is logical dim order[k].
memory::desc permuted_desc(DType dtype, std::span<const int64_t> logical, std::span<const int> order);
// The layout is left to the primitive.
memory::desc any_desc(DType dtype, std::span<const int64_t> dims);

// The text of an operand stored as `stored` whose plain form is `plain`; "" when no format tag names one of them.
std::string describe(const memory::desc& stored, const memory::desc& plain);

// The desc of `count` tensors stored one after the other, each laid out as `one` whose first dim is 1; an empty desc
// when no format tag names it.
memory::desc repeated(const memory::desc& one, int64_t count);

struct StoredOperand {
  memory::desc stored, plain;
};
// Reads the text back and checks `bytes` against it. Throws Error(ENGINE_RANGE).
StoredOperand parse_stored(const std::string& text, int64_t bytes);

// Copies between layouts, here and now.
void reorder_now(const memory::desc& from, const void* source, const memory::desc& to, void* target);

// A dnnl::error as the Error that may leave the provider.
[[noreturn]] void rethrow(const dnnl::error& error);
void check_status(dnnl_status_t status, const char* what);

}  // namespace deepjit::onednn

// MatMulNBits: weights in blocks of 2, 4 or 8 bits.
//
// The packed bytes, which are constants, become one element a number here, so that what follows is plain
// DequantizeLinear with blocks. Zero points default to the middle of the range.
#include "import/onnx/microsoft/families.h"

namespace deepjit::importer {

namespace {

// Every exporter writes these as initializers; unpacking them in the graph would be work for each run.
const Tensor& require_bytes(const NodeImport& node, size_t input) {
  const Tensor* tensor = constant_of(node.require_input(input));
  if (tensor == nullptr) {
    throw Error(Code::UNSUPPORTED_OP, "input " + std::to_string(input) + " that is no constant is not supported");
  }
  if (tensor->dtype() != DType::UINT8) throw Error(Code::TYPE, "input " + std::to_string(input) + " must be uint8");
  return *tensor;
}

DType unpacked_type(int64_t bits) { return bits == 2 ? DType::UINT2 : bits == 4 ? DType::UINT4 : DType::UINT8; }

// Rows of numbers of `bits` bits, low bits first, each row starting on a byte: [rows, columns], one element a number.
// `bytes_per_row` may be more than the columns need.
Tensor unpack(const Tensor& packed, int64_t bits, int64_t rows, int64_t bytes_per_row, int64_t columns) {
  if (packed.count() != checked_mul(rows, bytes_per_row) || checked_mul(bytes_per_row, 8 / bits) < columns) {
    throw Error(Code::SHAPE_MISMATCH, "packed numbers of shape " + packed.dims().to_string() + " are not " +
                                          std::to_string(rows) + " rows of " + std::to_string(columns));
  }
  Tensor out(unpacked_type(bits), {rows, columns});
  const int64_t per_byte = 8 / bits;
  const int mask = (1 << bits) - 1;
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* from = packed.as<uint8_t>() + r * bytes_per_row;
    uint8_t* to = static_cast<uint8_t*>(out.view().data) + r * columns;
    for (int64_t c = 0; c < columns; ++c) {
      to[c] = static_cast<uint8_t>((from[c / per_byte] >> (c % per_byte * bits)) & mask);
    }
  }
  return out;
}

Tensor filled(DType dtype, const Dims& dims, uint8_t value) {
  Tensor out(dtype, dims);
  std::fill_n(static_cast<uint8_t*>(out.view().data), out.count(), value);
  return out;
}

struct Weights {
  int64_t bits, block, rows, columns, blocks;  // rows x columns numbers, `blocks` blocks a row
};

int64_t positive(const NodeImport& node, const char* name) {
  const int64_t value = node.attrs.require_int(name);
  if (value < 1) throw Error(Code::ATTRIBUTE, std::string(name) + " is " + std::to_string(value));
  return value;
}

Weights weights_of(const NodeImport& node) {
  Weights w = {};
  w.bits = node.attrs.get_int("bits", 4);
  if (w.bits != 2 && w.bits != 4 && w.bits != 8) {
    throw Error(Code::UNSUPPORTED_OP, "weights of " + std::to_string(w.bits) + " bits are not supported");
  }
  if (node.attrs.get_int("weight_prepacked", 0) != 0) {
    throw Error(Code::UNSUPPORTED_OP, "weights prepacked for a device are not supported");
  }
  w.block = positive(node, "block_size");
  w.rows = positive(node, "N");
  w.columns = positive(node, "K");
  w.blocks = (w.columns + w.block - 1) / w.block;
  return w;
}

// Zero points as [rows, blocks] of the weights' type; nullptr when they are real numbers.
Value* integer_zero_points(NodeImport& node, const Weights& w) {
  if (node.input(3) == nullptr) {
    const auto middle = static_cast<uint8_t>(1 << (w.bits - 1));
    return node.constant(filled(unpacked_type(w.bits), {w.rows, w.blocks}, middle));
  }
  if (dtype_of(node.input(3)) != DType::UINT8) return nullptr;
  const int64_t bytes = (w.blocks * w.bits + 7) / 8;
  return node.constant(unpack(require_bytes(node, 3), w.bits, w.rows, bytes, w.blocks));
}

// (numbers - zeros) * scales, where each number has a zero and a scale of its own or shares it by broadcasting.
Value* dequantize_by_hand(const Emit& emit, Value* numbers, Value* zeros, Value* scales) {
  return emit.mul(emit.sub(emit.cast_like(numbers, scales), emit.cast_like(zeros, scales)), scales);
}

// Real zero points: blocks become a dim of their own, for which the last block is filled up.
Value* with_real_zero_points(const Emit& emit, const Weights& w, const Tensor& numbers, Value* scales) {
  NodeImport& node = emit.node();
  Tensor whole = filled(numbers.dtype(), {w.rows, w.blocks * w.block}, 0);
  for (int64_t r = 0; r < w.rows; ++r) {
    std::copy_n(static_cast<const uint8_t*>(numbers.view().data) + r * w.columns, w.columns,
                static_cast<uint8_t*>(whole.view().data) + r * w.blocks * w.block);
  }
  Value* blocks = node.constant(whole.reshaped({w.rows, w.blocks, w.block}));
  Value* zeros = emit.reshape(node.input(3), {w.rows, w.blocks, 1});
  Value* real = dequantize_by_hand(emit, blocks, zeros, emit.reshape(scales, {w.rows, w.blocks, 1}));
  return emit.slice(emit.reshape(real, {w.rows, w.blocks * w.block}), 1, 0, w.columns);
}

// The weights [rows, columns] in the scales' type.
Value* dequantized(const Emit& emit, const Weights& w) {
  NodeImport& node = emit.node();
  const int64_t bytes = checked_mul(w.blocks, (w.block * w.bits + 7) / 8);
  const Tensor numbers = unpack(require_bytes(node, 1), w.bits, w.rows, bytes, w.columns);
  Value* scales = emit.reshape(node.require_input(2), {w.rows, w.blocks});
  Value* zeros = integer_zero_points(node, w);
  if (node.input(4) != nullptr) {  // each column names its block
    Value* real_zeros =
        zeros != nullptr ? emit.cast_like(zeros, scales) : emit.reshape(node.input(3), {w.rows, w.blocks});
    Value* group = node.input(4);
    return dequantize_by_hand(emit, node.constant(numbers), emit.gather(real_zeros, group, 1),
                              emit.gather(scales, group, 1));
  }
  if (zeros == nullptr) return with_real_zero_points(emit, w, numbers, scales);
  Attributes attrs;
  attrs.set("axis", int64_t{1});
  attrs.set("block_size", w.block);
  return node.emit("DequantizeLinear", {node.constant(numbers), scales, zeros}, attrs);
}

// A, B, scales, zero_points, g_idx, bias. accuracy_level allows coarser arithmetic, which is not used.
void matmul_nbits(NodeImport& node) {
  const Emit emit(node);
  const Weights w = weights_of(node);
  Value* y = emit.matmul(node.require_input(0), emit.transpose(dequantized(emit, w), {1, 0}));
  if (node.input(5) != nullptr) y = emit.add(y, node.input(5));
  node.finish("Identity", {y}, {});
}

}  // namespace

void add_microsoft_nbits_handlers(HandlerMap& map) { map["com.microsoft.MatMulNBits"] = matmul_nbits; }

}  // namespace deepjit::importer

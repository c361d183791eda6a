// Weights between the model's layout and that of the kernels.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kernels/nvrtc/contract_problem.h"

namespace deepjit::nvrtc_gpu {

namespace {

constexpr int64_t kTileBytes = 128;  // of a row of a tile

int64_t packed_count(const WeightLayout& l) {
  const int64_t row = checked_mul(l.places, l.padded);
  if (l.tile == 0) return checked_mul(checked_mul(l.groups, l.n), row);
  return checked_mul(round_up(l.n, l.tile), round_up(row, kTileBytes / 2));
}

// Calls move(place in the model's layout, place in the packed rows) for every element; neighbours in n follow each
// other, as they lie where channels come first.
template <typename F>
void for_each_weight(const WeightLayout& l, F&& move) {
  constexpr int64_t kTogether = 32;
  for (int64_t first = 0; first < l.groups * l.n; first += kTogether) {
    const int64_t end = std::min(first + kTogether, l.groups * l.n);
    for (int64_t c = 0; c < l.channels; ++c) {
      for (int64_t row = first; row < end; ++row) {
        const int64_t outer = l.channels_first ? (row / l.n * l.channels + c) * l.n + row % l.n : row * l.channels + c;
        for (int64_t t = 0; t < l.places; ++t) move(outer * l.places + t, (row * l.places + t) * l.padded + c);
      }
    }
  }
}

// Between rows and tiles of them, in chunks of 16 bytes.
void move_tiles(const WeightLayout& l, char* rows, char* tiles, bool pack) {
  const int64_t row_bytes = l.places * l.padded * 2, steps = ceil_div(row_bytes, kTileBytes);
  for (int64_t n = 0; n < l.n; ++n) {
    char* const row = rows + n * row_bytes;
    char* const tile = tiles + (n / l.tile * steps * l.tile + n % l.tile) * kTileBytes;
    for (int64_t from = 0; from < row_bytes; from += 16) {
      const int64_t chunk = from % kTileBytes / 16 ^ (n % l.tile % 8);
      char* const there = tile + from / kTileBytes * l.tile * kTileBytes + chunk * 16;
      const auto bytes = static_cast<size_t>(std::min<int64_t>(16, row_bytes - from));
      if (pack)
        std::memcpy(there, row + from, bytes);
      else
        std::memcpy(row + from, there, bytes);
    }
  }
}

WeightLayout rows_of(WeightLayout layout) {
  layout.tile = 0;
  return layout;
}

template <typename T>
void move_weights(const WeightLayout& l, const Tensor& from, const Tensor& to, bool pack) {
  const T* source = static_cast<const T*>(from.view().data);
  T* target = static_cast<T*>(to.view().data);
  for_each_weight(l, [&](int64_t plain, int64_t packed) {
    if (pack)
      target[packed] = source[plain];
    else
      target[plain] = source[packed];
  });
}

void move_weights(const WeightLayout& l, size_t size, const Tensor& from, const Tensor& to, bool pack) {
  if (size == 4) return move_weights<uint32_t>(l, from, to, pack);
  check_internal(size == 2, "weights of another size than 2 or 4 bytes");
  move_weights<uint16_t>(l, from, to, pack);
}

}  // namespace

std::string WeightLayout::to_string() const {
  return fmt::format("weights {} {} {} {} {} {}{}", groups, n, channels, places, padded, channels_first ? 1 : 0,
                     tile > 0 ? fmt::format(" tiles {}", tile) : "");
}

WeightLayout WeightLayout::parse(const std::string& text) {
  WeightLayout l;
  long long v[7] = {};
  const int found = std::sscanf(text.c_str(), "weights %12lld %12lld %12lld %12lld %12lld %1lld tiles %4lld", &v[0],
                                &v[1], &v[2], &v[3], &v[4], &v[5], &v[6]);
  l = {v[0], v[1], v[2], v[3], v[4], v[5] != 0, v[6]};
  const bool fits = found >= 6 && (l.tile == 0 || (l.tile > 0 && l.groups == 1)) && l.groups > 0 && l.n > 0 &&
                    l.channels > 0 && l.places > 0 && l.padded >= l.channels;
  if (!fits || l.to_string() != text) throw Error(Code::ENGINE_RANGE, "\"" + text + "\" is no layout of weights");
  return l;
}

WeightLayout weight_layout(const ContractProblem& p, const StepShape& shape) {
  const int64_t places = checked_mul(p.kernel[0], p.kernel[1]);
  if (p.kind == ContractProblem::Kind::DEPTHWISE) return {1, places, p.channels, 1, p.channels, true};
  if (p.all_channels > 0) return {p.groups, p.n, p.channels, places, p.ldb / places, p.transposed};
  const Dims& dims = shape.inputs[1].dims;
  const bool turned =
      dims.rank() > 1 && shape.step->attrs.get_int(shape.step->op == "Gemm" ? "transB" : "trans_b", 0) != 0;
  return {dims.count() / (p.n * p.k), p.n, p.k, 1, p.ldb, !turned};
}

Tensor pack_weights(const WeightLayout& layout, const Tensor& plain) {
  const size_t size = dtype_size(plain.dtype());
  check_internal(layout.tile == 0 || size == 2, "weights of tiles have 16 bits");
  check_internal(plain.count() == layout.groups * layout.n * layout.channels * layout.places,
                 "weights of another size");
  const auto empty = [&](const WeightLayout& l) {
    Tensor made(DType::UINT8, {checked_mul(packed_count(l), static_cast<int64_t>(size))});
    std::memset(made.view().data, 0, static_cast<size_t>(made.bytes()));
    return made;
  };
  const Tensor rows = empty(rows_of(layout));
  move_weights(rows_of(layout), size, plain, rows, true);
  if (layout.tile == 0) return rows;
  const Tensor tiles = empty(layout);
  move_tiles(layout, rows.as<char>(), tiles.as<char>(), true);
  return tiles;
}

Tensor unpack_weights(const WeightLayout& layout, const Tensor& packed, const TensorDesc& plain) {
  const auto size = static_cast<int64_t>(dtype_size(plain.dtype));
  const int64_t count = checked_mul(checked_mul(layout.groups, layout.n), checked_mul(layout.channels, layout.places));
  const bool fits = count == plain.count() && packed.bytes() == checked_mul(packed_count(layout), size);
  if (!fits || (layout.tile > 0 && size != 2)) {
    throw Error(Code::ENGINE_RANGE, "packed weights do not fit their plain form " + plain.dims.to_string());
  }
  Tensor rows = packed;
  if (layout.tile > 0) {
    rows = Tensor(DType::UINT8, {checked_mul(packed_count(rows_of(layout)), size)});
    move_tiles(layout, rows.as<char>(), packed.as<char>(), false);
  }
  Tensor result(plain.dtype, plain.dims);
  move_weights(rows_of(layout), static_cast<size_t>(size), rows, result, false);
  return result;
}

}  // namespace deepjit::nvrtc_gpu

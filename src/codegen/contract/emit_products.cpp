// What a block does with the tiles of one step along k: products by tensor cores, or by fused multiply-adds.
//
// Tensor cores take and give fragments: of a 16 x 8 result, lane l holds columns 2 (l % 4) and the next, in rows l / 4
// and 8 more. Of a group of four warps the products of 64 rows lie so in each, 16 rows a warp. Plain products give
// thread t the columns t % 16, and every 16th from there.
#include "codegen/contract/contract_emitter.h"

namespace deepjit {

void ContractEmitter::declare_sums() {
  const int count = tile_.m * tile_.n / tile_.threads();
  out_.line("float sums[{}];", count);
  out_.line("#pragma unroll");
  out_.line("for (int i = 0; i < {}; ++i) sums[i] = 0.0f;", count);
  if (is_plain()) {
    out_.line("const int across = thread % 16, down = thread / 16;");
  } else if (in_groups()) {
    out_.line("const int group_m = warp % {0} / 4 * {1}, warp_m = group_m + warp % 4 * 16, warp_n = warp / {0} * {2};",
              tile_.warps_m, group_rows(), warp_n());
  } else {
    out_.line("const int warp_m = warp % {0} * {1}, warp_n = warp / {0} * {2};", tile_.warps_m, warp_m(), warp_n());
  }
}

void ContractEmitter::emit_products() {
  switch (tile_.math) {
    case ContractMath::TENSOR_16:
      return products_of_tensors_16();
    case ContractMath::GROUP_16:
      return products_of_groups();
    case ContractMath::TENSOR_32:
      return products_of_tensors_32();
    case ContractMath::PLAIN_32:
      return products_of_floats();
  }
}

void ContractEmitter::products_of_tensors_16() {
  const int rows = warp_m() / 16, pairs = warp_n() / 16;
  const Operand oa = a(), ob = b();
  out_.line("#pragma unroll");
  out_.open("for (int kk = 0; kk < {}; ++kk)", tile_.k / 16);
  out_.line("unsigned int fa[{}][4], fb[{}][4];", rows, pairs);
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", rows);
  if (oa.form == Form::COLUMNS) {
    out_.line("const int row = kk * 16 + lane % 8 + lane / 16 * 8, chunk = (warp_m + i * 16) / 8 + lane / 8 % 2;");
  } else {
    out_.line("const int row = warp_m + i * 16 + lane % 16, chunk = kk * 2 + lane / 16;");
  }
  out_.line("{};", out_.call(oa.form == Form::COLUMNS ? "load_turned" : "load_matrices",
                             fmt::format("fa[i], at_a + {}", chunk_place(oa, "row", "chunk"))));
  out_.close();
  out_.line("#pragma unroll");
  out_.open("for (int j = 0; j < {}; ++j)", pairs);
  if (ob.form == Form::COLUMNS) {
    out_.line("const int row = kk * 16 + lane % 16, chunk = (warp_n + j * 16) / 8 + lane / 16;");
  } else {
    out_.line("const int row = warp_n + j * 16 + lane % 8 + lane / 16 * 8, chunk = kk * 2 + lane / 8 % 2;");
  }
  out_.line("{};", out_.call(ob.form == Form::COLUMNS ? "load_turned" : "load_matrices",
                             fmt::format("fb[j], at_b + {}", chunk_place(ob, "row", "chunk"))));
  out_.close();
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", rows);
  out_.line("#pragma unroll");
  out_.open("for (int j = 0; j < {}; ++j)", 2 * pairs);
  out_.line("{};", out_.call(spec_.type == DType::FLOAT16 ? "multiply_halves" : "multiply_bfloats",
                             fmt::format("sums + (i * {} + j) * 4, fa[i], fb[j / 2] + j % 2 * 2", 2 * pairs)));
  out_.close();
  out_.close();
  out_.close();
}

// All products of a step are under way at once; those of the step before are done when they are asked for.
void ContractEmitter::products_of_groups() {
  const char* type = spec_.type == DType::FLOAT16 ? "f16" : "bf16";
  out_.line("{};", out_.call("groups_begin", ""));
  out_.line("#pragma unroll");
  out_.open("for (int kk = 0; kk < {}; ++kk)", tile_.k / 16);
  for (int i = 0; i < group_rows() / 64; ++i) {
    out_.line("{};", out_.call(fmt::format("group_multiply_{}_{}", type, warp_n()),
                               fmt::format("sums + {}, at_a + (group_m + {}) * 128, at_b + warp_n * 128, kk",
                                           i * warp_n() / 2, i * 64)));
  }
  out_.close();
  out_.line("{};", out_.call("groups_end", ""));
  out_.line("{};", out_.call("groups_left", "1"));
}

// An element of a float32 tile.
std::string ContractEmitter::element_32(const Operand& o, const std::string& place, const std::string& k) const {
  const bool columns = o.form == Form::COLUMNS;
  return fmt::format("((const float*)at_{})[({}) * {} + ({})]", o.name, columns ? k : place, pitch_of(o) / 4,
                     columns ? place : k);
}

void ContractEmitter::products_of_tensors_32() {
  const int rows = warp_m() / 16, columns = warp_n() / 8;
  const Operand oa = a(), ob = b();
  out_.line("#pragma unroll");
  out_.open("for (int kk = 0; kk < {}; kk += 8)", tile_.k);
  out_.line("unsigned int fa[{}][4], fb[{}][2];", rows, columns);
  const auto tf32 = [&](const std::string& x) { return out_.call("tf32_of_float", x); };
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", rows);
  out_.line("#pragma unroll");
  out_.line("for (int q = 0; q < 4; ++q) fa[i][q] = {};",
            tf32(element_32(oa, "warp_m + i * 16 + lane / 4 + q % 2 * 8", "kk + lane % 4 + q / 2 * 4")));
  out_.close();
  out_.line("#pragma unroll");
  out_.open("for (int j = 0; j < {}; ++j)", columns);
  out_.line("#pragma unroll");
  out_.line("for (int q = 0; q < 2; ++q) fb[j][q] = {};",
            tf32(element_32(ob, "warp_n + j * 8 + lane / 4", "kk + lane % 4 + q * 4")));
  out_.close();
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", rows);
  out_.line("#pragma unroll");
  out_.line("for (int j = 0; j < {0}; ++j) {1};", columns,
            out_.call("multiply_tf32", fmt::format("sums + (i * {} + j) * 4, fa[i], fb[j]", columns)));
  out_.close();
  out_.close();
}

// Four elements along k at a time, by one load where they lie together.
void ContractEmitter::load_floats(const Operand& o, int count, const std::string& place) {
  out_.line("#pragma unroll");
  if (o.form == Form::COLUMNS) {
    out_.open("for (int i = 0; i < {}; ++i)", count);
    out_.line("#pragma unroll");
    out_.line("for (int q = 0; q < 4; ++q) f{}[i][q] = {};", o.name, element_32(o, place, "kk + q"));
    return out_.close();
  }
  out_.line("for (int i = 0; i < {}; ++i) *(Chunk16*)f{}[i] = *(const Chunk16*)&{};", count, o.name,
            element_32(o, place, "kk"));
}

void ContractEmitter::products_of_floats() {
  const int rows = floats_m(), columns = floats_n(), every = tile_.threads() / 16;
  out_.line("#pragma unroll 2");
  out_.open("for (int kk = 0; kk < {}; kk += 4)", tile_.k);
  out_.line("__align__(16) float fa[{}][4], fb[{}][4];", rows, columns);
  load_floats(a(), rows, fmt::format("down + i * {}", every));
  load_floats(b(), columns, "across + i * 16");
  out_.line("#pragma unroll");
  out_.open("for (int q = 0; q < 4; ++q)");
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", rows);
  out_.line("#pragma unroll");
  out_.line("for (int j = 0; j < {0}; ++j) sums[i * {0} + j] = __fmaf_rn(fa[i][q], fb[j][q], sums[i * {0} + j]);",
            columns);
  out_.close();
  out_.close();
  out_.close();
}

// From the threads' sums to rows in shared memory.
void ContractEmitter::stage_sums() {
  const int pitch = contract_result_pitch(tile_);
  if (is_plain()) {
    const int rows = floats_m(), columns = floats_n(), every = tile_.threads() / 16;
    out_.line("#pragma unroll");
    out_.open("for (int i = 0; i < {}; ++i)", rows);
    out_.line("#pragma unroll");
    out_.line("for (int j = 0; j < {0}; ++j) staged[(down + i * {1}) * {2} + across + j * 16] = sums[i * {0} + j];",
              columns, every, pitch);
    return out_.close();
  }
  const int rows = warp_m() / 16, columns = warp_n() / 8, apart = in_groups() ? 64 : 16;
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", rows);
  out_.line("#pragma unroll");
  out_.open("for (int j = 0; j < {}; ++j)", columns);
  out_.line("#pragma unroll");
  out_.open("for (int q = 0; q < 2; ++q)");
  out_.line("const int row = warp_m + i * {} + lane / 4 + q * 8, column = warp_n + j * 8 + lane % 4 * 2;", apart);
  const std::string pair = out_.vector_type(DType::FLOAT32, 2);
  out_.line("const int sum = (i * {} + j) * 4 + q * 2;", columns);
  out_.line("*({0}*)(staged + row * {1} + column) = {0}{{{{sums[sum], sums[sum + 1]}}}};", pair, pitch);
  out_.close();
  out_.close();
  out_.close();
}

}  // namespace deepjit

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/sha256.h"
#include "codegen/contract/attention.h"
#include "codegen/cuda/emit_cuda_scalar.h"

namespace deepjit {

namespace {

constexpr int64_t kMostShared = 99 << 10;

class AttentionEmitter {
 public:
  AttentionEmitter(const AttentionSpec& spec, const AttentionTile& tile)
      : spec_(spec),
        tile_(tile),
        chunks_(static_cast<int>(spec.head) / 8),
        pitch_((chunks_ + (chunks_ % 2 == 0 ? 1 : 0)) * 16),
        keys_(tile.keys * tile.warps_k) {}

  ContractText run(const std::string& name) {
    emit_arguments(name);
    emit_place();
    load_queries();
    emit_loop();
    if (tile_.warps_k > 1) merge_warps();
    emit_result();
    out_.close();
    return {name, out_.finish(), shared_bytes()};
  }

  int64_t shared_bytes() const {
    const int64_t tiles = int64_t{pitch_} * (tile_.queries() + 4 * keys_);
    const int64_t merged = tile_.warps_k == 1 ? 0 : int64_t{tile_.warps_q} * tile_.warps_k * 16 * (spec_.head + 2) * 4;
    return std::max(tiles, merged);
  }

 private:
  bool half() const { return spec_.type == DType::FLOAT16; }
  const char* multiply() const { return half() ? "multiply_halves" : "multiply_bfloats"; }
  std::string place(const std::string& row, const std::string& chunk) const {
    return fmt::format("({}) * {} + ({}) * 16", row, pitch_, chunk);
  }

  void emit_arguments(const std::string& name) {
    out_.line("extern \"C\" __global__ void __launch_bounds__({}) {}(", tile_.threads(), name);
    for (int i = 0; i < spec_.inputs; ++i) {
      const std::string type = i < 3 ? "unsigned short" : i == 3 && has_mask() ? cuda_memory_type(spec_.mask) : "void";
      out_.line("    const {}* in{},", type, i);
    }
    std::string numbers;
    for (const std::string& n : attention_numbers()) {
      numbers += (numbers.empty() ? "long long " : ", long long ") + n;
    }
    out_.open("    unsigned short* out, {})", numbers);
  }

  bool has_mask() const { return spec_.mask != DType::UNDEFINED; }

  void emit_place() {
    out_.line("const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;");
    out_.line("const int warp_q = warp % {0}, warp_k = warp / {0};", tile_.warps_q);
    out_.line("const int queries = (int)q_length, keys = (int)k_length;");
    out_.line("const int tiles = (queries + {0} - 1) / {0};", tile_.queries());
    out_.line("int block = (int)blockIdx.x;");
    out_.line("const int q0 = block % tiles * {}; block /= tiles;", tile_.queries());
    out_.line("const int head = block % {0}, batch = block / {0};", spec_.heads);
    out_.line("const int kv_head = head / {};", spec_.heads / spec_.kv_heads);
    out_.line("const unsigned short* const q = in0 + q_start + batch * q_batch + head * q_head;");
    out_.line("const unsigned short* const k = in1 + k_start + batch * k_batch + kv_head * k_head;");
    out_.line("const unsigned short* const v = in2 + v_start + batch * v_batch + kv_head * v_head;");
    if (has_mask()) {
      out_.line("const {}* const mask = in3 + batch * m_batch + head * m_head;", cuda_memory_type(spec_.mask));
    }
    for (const char* n : {"q", "k", "v"}) {
      out_.line("const bool {0}_whole = ((unsigned long long){0} & 15) == 0 && {0}_row % 8 == 0;", n);
    }
    out_.line("unsigned char* const memory = (unsigned char*){};", out_.call("row_memory", ""));
    out_.line("unsigned char* const keys_at = memory + {};", pitch_ * tile_.queries());
  }

  // Copies rows of one tensor into shared memory; those beyond `count` are zeros.
  void copy_rows(const std::string& name, const std::string& to, const std::string& first, int rows,
                 const std::string& count) {
    out_.open("for (int i = thread; i < {}; i += {})", rows * chunks_, tile_.threads());
    out_.line("const int row = i / {0}, chunk = i % {0};", chunks_);
    out_.line("{};",
              out_.call("copy_chunk_16", fmt::format("{0} + {1}, {2} + (long long)({3} + row) * {2}_row + chunk * 8, "
                                                     "{3} + row < {4} ? 8 : 0, {2}_whole",
                                                     to, place("row", "chunk"), name, first, count)));
    out_.close();
  }

  void copy_keys(const std::string& which, const std::string& slot) {
    const int tile = pitch_ * keys_;
    copy_rows("k", fmt::format("keys_at + {} * {}", slot, 2 * tile), fmt::format("({}) * {}", which, keys_), keys_,
              "keys");
    copy_rows("v", fmt::format("keys_at + {} * {} + {}", slot, 2 * tile, tile), fmt::format("({}) * {}", which, keys_),
              keys_, "keys");
  }

  void load_queries() {
    copy_rows("q", "memory", "q0", tile_.queries(), "queries");
    copy_keys("0", "0");
    out_.line("{};", out_.call("copies_end", ""));
    out_.line("float sums[{}][4], peak[2], total[2];", spec_.head / 8);
    out_.line("#pragma unroll");
    out_.line("for (int n = 0; n < {}; ++n) sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;", spec_.head / 8);
    out_.line("peak[0] = peak[1] = __int_as_float((int)0xff800000);");
    out_.line("total[0] = total[1] = 0.0f;");
    out_.line("const int first_row = q0 + warp_q * 16 + lane / 4;");
    if (spec_.causal) {
      out_.line("const int reach = q0 + {0} < keys ? q0 + {0} : keys;", tile_.queries());
    } else {
      out_.line("const int reach = keys;");
    }
    out_.line("const int steps = (reach + {0} - 1) / {0};", keys_);
  }

  void emit_loop() {
    out_.open("for (int step = 0; step < steps; ++step)");
    out_.line("{};", out_.call("copies_left", "0"));
    out_.line("__syncthreads();");
    out_.line("if (step + 1 < steps) {{");
    copy_keys("step + 1", "((step + 1) & 1)");
    out_.line("}}");
    out_.line("{};", out_.call("copies_end", ""));
    out_.line("const unsigned char* const at_k = keys_at + (step & 1) * {} + warp_k * {};", 2 * pitch_ * keys_,
              pitch_ * tile_.keys);
    out_.line("const unsigned char* const at_v = at_k + {};", pitch_ * keys_);
    emit_scores();
    emit_softmax();
    emit_values();
    out_.close();
    out_.line("{};", out_.call("copies_left", "0"));
  }

  void emit_scores() {
    out_.line("float scores[{}][4];", tile_.keys / 8);
    out_.line("#pragma unroll");
    out_.line("for (int j = 0; j < {}; ++j) scores[j][0] = scores[j][1] = scores[j][2] = scores[j][3] = 0.0f;",
              tile_.keys / 8);
    out_.line("#pragma unroll");
    out_.open("for (int kk = 0; kk < {}; ++kk)", spec_.head / 16);
    out_.line("unsigned int fq[4];");
    out_.line("{};",
              out_.call("load_matrices", "fq, memory + " + place("warp_q * 16 + lane % 16", "kk * 2 + lane / 16")));
    out_.line("#pragma unroll");
    out_.open("for (int j = 0; j < {}; ++j)", tile_.keys / 16);
    out_.line("unsigned int fk[4];");
    out_.line("{};", out_.call("load_matrices",
                               "fk, at_k + " + place("j * 16 + lane % 8 + lane / 16 * 8", "kk * 2 + lane / 8 % 2")));
    out_.line("{};", out_.call(multiply(), "scores[2 * j], fq, fk"));
    out_.line("{};", out_.call(multiply(), "scores[2 * j + 1], fq, fk + 2"));
    out_.close();
    out_.close();
  }

  // Rows of a tile of scores lie in four neighbouring lanes.
  void emit_softmax() {
    const std::string minus_infinity = "__int_as_float((int)0xff800000)";
    out_.line("float high[2] = {{peak[0], peak[1]}};");
    out_.line("#pragma unroll");
    out_.open("for (int j = 0; j < {}; ++j)", tile_.keys / 8);
    out_.line("#pragma unroll");
    out_.open("for (int q = 0; q < 4; ++q)");
    out_.line("const int key = step * {} + warp_k * {} + j * 8 + lane % 4 * 2 + q % 2;", keys_, tile_.keys);
    out_.line("const int row = first_row + q / 2 * 8;");
    out_.line("float x = scores[j][q] * {};", cuda_text::literal(spec_.scale, DType::FLOAT32));
    if (has_mask()) {
      out_.open("if (key < keys && row < queries)");
      out_.line("const {} m = mask[row * m_row + key * m_key];", cuda_memory_type(spec_.mask));
      if (spec_.mask == DType::BOOL) {
        out_.line("x = m != 0 ? x : {};", minus_infinity);
      } else {
        out_.line("x += {};", cuda_text::from_memory(out_, "m", spec_.mask));
      }
      out_.close();
    }
    out_.line("if (key >= keys{}) x = {};", spec_.causal ? " || key > row" : "", minus_infinity);
    out_.line("scores[j][q] = x;");
    out_.line("high[q / 2] = fmaxf(high[q / 2], x);");
    out_.close();
    out_.close();
    out_.line("#pragma unroll");
    out_.open("for (int h = 0; h < 2; ++h)");
    for (int lanes : {1, 2}) {
      out_.line("high[h] = fmaxf(high[h], __shfl_xor_sync(0xffffffffu, high[h], {}));", lanes);
    }
    out_.line("const float base = high[h] == {} ? 0.0f : high[h];", minus_infinity);
    out_.line("const float shrink = {};", exponential("peak[h] - base"));
    out_.line("peak[h] = high[h];");
    out_.line("float sum = 0.0f;");
    out_.line("#pragma unroll");
    out_.open("for (int j = 0; j < {}; ++j)", tile_.keys / 8);
    out_.line("#pragma unroll");
    out_.open("for (int q = 0; q < 2; ++q)");
    out_.line("const float p = {};", exponential("scores[j][2 * h + q] - base"));
    out_.line("scores[j][2 * h + q] = p;");
    out_.line("sum += p;");
    out_.close();
    out_.close();
    out_.line("total[h] = total[h] * shrink + sum;");
    out_.line("#pragma unroll");
    out_.line("for (int n = 0; n < {}; ++n) {{ sums[n][2 * h] *= shrink; sums[n][2 * h + 1] *= shrink; }}",
              spec_.head / 8);
    out_.close();
  }

  std::string exponential(const std::string& x) { return out_.call("power_of_two", "(" + x + ") * 1.44269504f"); }

  // Two scores side by side are a register of the next product's operand.
  void emit_values() {
    const auto pack = [&](const std::string& low, const std::string& high) {
      return fmt::format("(unsigned int){} | (unsigned int){} << 16", cuda_text::to_memory(out_, low, spec_.type),
                         cuda_text::to_memory(out_, high, spec_.type));
    };
    out_.line("#pragma unroll");
    out_.open("for (int j = 0; j < {}; ++j)", tile_.keys / 16);
    out_.line("unsigned int fp[4];");
    out_.line("fp[0] = {};", pack("scores[2 * j][0]", "scores[2 * j][1]"));
    out_.line("fp[1] = {};", pack("scores[2 * j][2]", "scores[2 * j][3]"));
    out_.line("fp[2] = {};", pack("scores[2 * j + 1][0]", "scores[2 * j + 1][1]"));
    out_.line("fp[3] = {};", pack("scores[2 * j + 1][2]", "scores[2 * j + 1][3]"));
    out_.line("#pragma unroll");
    out_.open("for (int n = 0; n < {}; ++n)", spec_.head / 16);
    out_.line("unsigned int fv[4];");
    out_.line("{};", out_.call("load_turned", "fv, at_v + " + place("j * 16 + lane % 16", "n * 2 + lane / 16")));
    out_.line("{};", out_.call(multiply(), "sums[2 * n], fp, fv"));
    out_.line("{};", out_.call(multiply(), "sums[2 * n + 1], fp, fv + 2"));
    out_.close();
    out_.close();
  }

  // The warps of a row of the block leave peaks, totals and sums in shared memory; the first one merges them.
  void merge_warps() {
    const int64_t one = 16 * (spec_.head + 2);
    out_.line("__syncthreads();");
    out_.line("float* const left = (float*)memory + warp_q * {};", tile_.warps_k * one);
    out_.line("float* const mine = left + warp_k * {};", one);
    out_.line("#pragma unroll");
    out_.open("for (int h = 0; h < 2; ++h)");
    for (int lanes : {1, 2}) out_.line("total[h] += __shfl_xor_sync(0xffffffffu, total[h], {});", lanes);
    out_.line("const int row = lane / 4 + h * 8;");
    out_.line("mine[row] = peak[h];");
    out_.line("mine[16 + row] = total[h];");
    out_.line("#pragma unroll");
    out_.open("for (int n = 0; n < {}; ++n)", spec_.head / 8);
    out_.line("mine[32 + row * {} + n * 8 + lane % 4 * 2] = sums[n][2 * h];", spec_.head);
    out_.line("mine[32 + row * {} + n * 8 + lane % 4 * 2 + 1] = sums[n][2 * h + 1];", spec_.head);
    out_.close();
    out_.close();
    out_.line("__syncthreads();");
    out_.line("if (warp_k != 0) return;");
    out_.line("#pragma unroll");
    out_.open("for (int h = 0; h < 2; ++h)");
    out_.line("const int row = lane / 4 + h * 8;");
    out_.line("float high = left[row];");
    out_.line("for (int w = 1; w < {}; ++w) high = fmaxf(high, left[w * {} + row]);", tile_.warps_k, one);
    out_.line("if (high == __int_as_float((int)0xff800000)) high = 0.0f;");
    out_.line("total[h] = 0.0f;");
    out_.line("#pragma unroll");
    out_.line("for (int n = 0; n < {}; ++n) sums[n][2 * h] = sums[n][2 * h + 1] = 0.0f;", spec_.head / 8);
    out_.open("for (int w = 0; w < {}; ++w)", tile_.warps_k);
    out_.line("const float* const its = left + w * {};", one);
    out_.line("const float shrink = {};", exponential("its[row] - high"));
    out_.line("total[h] += its[16 + row] * shrink;");
    out_.line("#pragma unroll");
    out_.open("for (int n = 0; n < {}; ++n)", spec_.head / 8);
    out_.line("sums[n][2 * h] += its[32 + row * {} + n * 8 + lane % 4 * 2] * shrink;", spec_.head);
    out_.line("sums[n][2 * h + 1] += its[32 + row * {} + n * 8 + lane % 4 * 2 + 1] * shrink;", spec_.head);
    out_.close();
    out_.close();
    out_.close();
  }

  void emit_result() {
    out_.line("unsigned short* const y = out + batch * y_batch + head * y_head;");
    out_.line("#pragma unroll");
    out_.open("for (int h = 0; h < 2; ++h)");
    if (tile_.warps_k == 1) {
      for (int lanes : {1, 2}) out_.line("total[h] += __shfl_xor_sync(0xffffffffu, total[h], {});", lanes);
    }
    out_.line("const int row = first_row + h * 8;");
    out_.line("if (row >= queries) continue;");
    out_.line("const float factor = 1.0f / total[h];");
    out_.line("#pragma unroll");
    out_.open("for (int n = 0; n < {}; ++n)", spec_.head / 8);
    out_.line("unsigned short* const to = y + (long long)row * y_row + n * 8 + lane % 4 * 2;");
    out_.line("to[0] = {};", cuda_text::to_memory(out_, "sums[n][2 * h] * factor", spec_.type));
    out_.line("to[1] = {};", cuda_text::to_memory(out_, "sums[n][2 * h + 1] * factor", spec_.type));
    out_.close();
    out_.close();
  }

  const AttentionSpec& spec_;
  AttentionTile tile_;
  CudaWriter out_;
  int chunks_, pitch_, keys_;
};

}  // namespace

const std::vector<std::string>& attention_numbers() {
  static const std::vector<std::string> names = {"q_length", "k_length", "q_batch", "q_head", "q_row", "k_batch",
                                                 "k_head",   "k_row",    "v_batch", "v_head", "v_row", "y_batch",
                                                 "y_head",   "y_row",    "m_batch", "m_head", "m_row", "m_key",
                                                 "q_start",  "k_start",  "v_start"};
  return names;
}

std::string AttentionTile::to_string() const { return fmt::format("attention{}x{}x{}", warps_q, warps_k, keys); }

AttentionTile AttentionTile::parse(const std::string& text) {
  AttentionTile t;
  const int found = std::sscanf(text.c_str(), "attention%2dx%2dx%3d", &t.warps_q, &t.warps_k, &t.keys);
  const bool fits =
      found == 3 && t.warps_q > 0 && t.warps_k > 0 && t.warps_q * t.warps_k <= 16 && t.keys > 0 && t.keys % 16 == 0;
  if (!fits || t.to_string() != text) throw Error(Code::ENGINE_RANGE, "\"" + text + "\" is no tile of an attention");
  return t;
}

int64_t attention_shared_bytes(const AttentionSpec& spec, const AttentionTile& tile) {
  return AttentionEmitter(spec, tile).shared_bytes();
}

std::string why_not_tile(const AttentionSpec& spec, const AttentionTile& tile) {
  if (spec.head % 16 != 0 || spec.head < 16 || spec.head > 256) return "heads of that size";
  if (attention_shared_bytes(spec, tile) > kMostShared) return "it takes too much shared memory";
  return "";
}

ContractText emit_attention(const AttentionSpec& spec, const AttentionTile& tile) {
  check_internal(why_not_tile(spec, tile).empty(), "codegen: a tile that does not fit its attention");
  const std::string text = AttentionEmitter(spec, tile).run("attention").source;
  return AttentionEmitter(spec, tile).run("attention_" + sha256_hex(text).substr(0, 12));
}

}  // namespace deepjit

#include <algorithm>

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
  bool has_mask() const { return spec_.mask != DType::UNDEFINED; }
  // Powers are of two: scores are scaled by this. Where nothing is added to them, the scaling is part of the power.
  float scale() const { return static_cast<float>(spec_.scale * 1.4426950408889634); }
  bool scaled_before() const { return has_mask() || !(spec_.scale > 0); }
  // Queries stay in registers while there is room for them.
  bool holds_queries() const { return spec_.head <= 128; }
  int parts_of_head() const { return static_cast<int>(spec_.head) / 8; }  // 8 columns each, of a warp's sums
  int own_parts() const { return (parts_of_head() + tile_.warps_k - 1) / tile_.warps_k; }

  static std::string place(const std::string& row, const std::string& chunk, int pitch) {
    return fmt::format("({}) * {} + ({}) * 16", row, pitch, chunk);
  }
  std::string pack(const std::string& low, const std::string& high) {
    return out_.call(half() ? "pack_halves" : "pack_bfloats", low + ", " + high);
  }
  std::string power(const std::string& x) { return out_.call("power_of_two", x); }
  void each(const char* variable, int count) {
    out_.line("#pragma unroll");
    out_.open("for (int {0} = 0; {0} < {1}; ++{0})", variable, count);
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
    out_.line("const int copy_row = thread / {0}, copy_chunk = thread % {0};", chunks_);
    out_.line("const int first_row = q0 + warp_q * 16 + lane / 4;");
  }

  // Copies rows of one tensor into shared memory; those beyond `count` are zeros. A thread copies one chunk of every
  // so many rows.
  void copy_rows(const std::string& name, const std::string& to, const std::string& first, int rows,
                 const std::string& count) {
    const int at_once = tile_.threads() / chunks_;
    const std::string idle = tile_.threads() % chunks_ == 0 ? "" : fmt::format("copy_row < {} && ", at_once);
    out_.open("{}", "");
    out_.line("const int start = {} + copy_row;", first);
    out_.line("unsigned char* to = {} + copy_row * {} + copy_chunk * 16;", to, pitch_);
    out_.line("const unsigned short* from = {0} + (long long)start * {0}_row + copy_chunk * 8;", name);
    const auto loop = [&](const std::string& copy) {
      out_.open("for (int row = 0; row < {0}; row += {1}, to += {2}, from += {1} * {3}_row)", rows, at_once,
                at_once * pitch_, name);
      const std::string fits =
          rows % at_once == 0 && idle.empty() ? "" : fmt::format("if ({}row + copy_row < {}) ", idle, rows);
      out_.line("{}{};", fits, copy);
      out_.close();
    };
    out_.open("if ({}_whole)", name);
    out_.line("#pragma unroll");
    loop(out_.call("copy_or_zero", fmt::format("to, from, start + row < {}", count)));
    out_.otherwise();
    out_.line("#pragma unroll 1");
    loop(out_.call("copy_chunk_16", fmt::format("to, from, start + row < {} ? 8 : 0, false", count)));
    out_.close();
    out_.close();
  }

  // Tile `which` of K or V goes where the tile before the last was.
  void copy_keys(const std::string& name, const std::string& which) {
    const int tile = pitch_ * keys_;
    copy_rows(name, fmt::format("keys_at + ({} & 1) * {} + {}", which, 2 * tile, name == "k" ? 0 : tile),
              fmt::format("({}) * {}", which, keys_), keys_, "keys");
  }

  void load_queries() {
    copy_rows("q", "memory", "q0", tile_.queries(), "queries");
    copy_keys("k", "0");
    out_.line("{};", out_.call("copies_end", ""));
    copy_keys("v", "0");
    out_.line("{};", out_.call("copies_end", ""));
    out_.line("float sums[{}][4], peak[2], total[2];", parts_of_head());
    out_.line("#pragma unroll");
    out_.line("for (int n = 0; n < {}; ++n) sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;",
              parts_of_head());
    out_.line("peak[0] = peak[1] = {};", kMinusInfinity);
    out_.line("total[0] = total[1] = 0.0f;");
    out_.line("const int reach = {};",
              spec_.causal ? fmt::format("q0 + {0} < keys ? q0 + {0} : keys", tile_.queries()) : "keys");
    // No key before this one is out of any row's reach.
    out_.line("const int free = {};", spec_.causal ? "q0 < keys ? q0 : keys" : "keys");
    out_.line("const int steps = (reach + {0} - 1) / {0};", keys_);
    if (holds_queries()) {
      wait_for_keys();
      out_.line("unsigned int fq[{}][4];", spec_.head / 16);
      each("kk", static_cast<int>(spec_.head) / 16);
      load_query("fq[kk]");
      out_.close();
    }
  }

  void load_query(const std::string& to) {
    out_.line("{};", out_.call("load_matrices",
                               to + ", memory + " + place("warp_q * 16 + lane % 16", "kk * 2 + lane / 16", pitch_)));
  }

  // All but the last group of copies are done, everywhere in the block.
  void wait_for_keys() {
    out_.line("{};", out_.call("copies_left", "1"));
    out_.line("__syncthreads();");
  }

  // K of the next step is under way while scores are made, V while they are used.
  void emit_loop() {
    out_.open("for (int step = 0; step < steps; ++step)");
    if (has_mask()) emit_mask();
    wait_for_keys();
    copy_next("k");
    out_.line("const unsigned char* const at_k = keys_at + (step & 1) * {} + warp_k * {};", 2 * pitch_ * keys_,
              pitch_ * tile_.keys);
    out_.line("const unsigned char* const at_v = at_k + {};", pitch_ * keys_);
    emit_scores();
    emit_softmax();
    wait_for_keys();
    copy_next("v");
    emit_values();
    out_.close();
    out_.line("{};", out_.call("copies_left", "0"));
  }

  void copy_next(const std::string& name) {
    out_.open("if (step + 1 < steps)");
    copy_keys(name, "(step + 1)");
    out_.close();
    out_.line("{};", out_.call("copies_end", ""));
  }

  // What is added to this step's scores, before anything waits. Keys and rows that do not exist read their neighbours.
  void emit_mask() {
    const int rows = spec_.mask_by_query ? 2 : 1;
    out_.line("float added[{}][{}];", tile_.keys / 8, 2 * rows);
    if (spec_.mask_by_query) {
      out_.line("const int last_row = queries - 1;");
      out_.line("const long long low_row = (first_row < last_row ? first_row : last_row) * m_row;");
      out_.line("const long long high_row = (first_row + 8 < last_row ? first_row + 8 : last_row) * m_row;");
    }
    each("j", tile_.keys / 8);
    each("q", 2 * rows);
    out_.line("int key = step * {} + warp_k * {} + j * 8 + lane % 4 * 2 + q % 2;", keys_, tile_.keys);
    out_.line("key = key < keys ? key : keys - 1;");
    out_.line("const {} m = mask[{}key * m_key];", cuda_memory_type(spec_.mask),
              spec_.mask_by_query ? "(q < 2 ? low_row : high_row) + " : "");
    if (spec_.mask == DType::BOOL) {
      out_.line("added[j][q] = m != 0 ? 0.0f : {};", kMinusInfinity);
    } else {
      out_.line("added[j][q] = {} * 1.44269504f;", cuda_text::from_memory(out_, "m", spec_.mask));
    }
    out_.close();
    out_.close();
  }

  void emit_scores() {
    out_.line("float scores[{}][4];", tile_.keys / 8);
    out_.line("#pragma unroll");
    out_.line("for (int j = 0; j < {}; ++j) scores[j][0] = scores[j][1] = scores[j][2] = scores[j][3] = 0.0f;",
              tile_.keys / 8);
    each("kk", static_cast<int>(spec_.head) / 16);
    if (!holds_queries()) {
      out_.line("unsigned int one[4];");
      load_query("one");
    }
    const std::string query = holds_queries() ? "fq[kk]" : "one";
    each("j", tile_.keys / 16);
    out_.line("unsigned int fk[4];");
    out_.line("{};", out_.call("load_matrices", "fk, at_k + " + place("j * 16 + lane % 8 + lane / 16 * 8",
                                                                      "kk * 2 + lane / 8 % 2", pitch_)));
    out_.line("{};", out_.call(multiply(), "scores[2 * j], " + query + ", fk"));
    out_.line("{};", out_.call(multiply(), "scores[2 * j + 1], " + query + ", fk + 2"));
    out_.close();
    out_.close();
  }

  // Rows of a tile of scores lie in four neighbouring lanes.
  void emit_softmax() {
    const std::string by = cuda_text::literal(scale(), DType::FLOAT32);
    if (scaled_before()) {
      each("j", tile_.keys / 8);
      out_.line("#pragma unroll");
      if (has_mask()) {
        out_.line("for (int q = 0; q < 4; ++q) scores[j][q] = __fmaf_rn(scores[j][q], {}, added[j][{}]);", by,
                  spec_.mask_by_query ? "q" : "q % 2");
      } else {
        out_.line("for (int q = 0; q < 4; ++q) scores[j][q] *= {};", by);
      }
      out_.close();
    }
    out_.open("if ((step + 1) * {} > free)", keys_);
    each("j", tile_.keys / 8);
    each("q", 4);
    out_.line("const int key = step * {} + warp_k * {} + j * 8 + lane % 4 * 2 + q % 2;", keys_, tile_.keys);
    out_.line("if (key >= keys{}) scores[j][q] = {};", spec_.causal ? " || key > first_row + q / 2 * 8" : "",
              kMinusInfinity);
    out_.close();
    out_.close();
    out_.close();
    each("h", 2);
    out_.line("float high = fmaxf(scores[0][2 * h], scores[0][2 * h + 1]);");
    out_.line("#pragma unroll");
    out_.line("for (int j = 1; j < {}; ++j) high = fmaxf(high, fmaxf(scores[j][2 * h], scores[j][2 * h + 1]));",
              tile_.keys / 8);
    for (int lanes : {1, 2}) out_.line("high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, {}));", lanes);
    if (!scaled_before()) out_.line("high *= {};", by);
    out_.line("high = fmaxf(high, peak[h]);");
    out_.line("const float base = high == {} ? 0.0f : high;", kMinusInfinity);
    out_.line("const float shrink = {};", power("peak[h] - base"));
    out_.line("peak[h] = high;");
    out_.line("float sum = 0.0f;");
    each("j", tile_.keys / 8);
    each("q", 2);
    out_.line("const float p = {};", power(scaled_before() ? "scores[j][2 * h + q] - base"
                                                           : "__fmaf_rn(scores[j][2 * h + q], " + by + ", -base)"));
    out_.line("scores[j][2 * h + q] = p;");
    out_.line("sum += p;");
    out_.close();
    out_.close();
    out_.line("total[h] = total[h] * shrink + sum;");
    out_.line("#pragma unroll");
    out_.line("for (int n = 0; n < {}; ++n) {{ sums[n][2 * h] *= shrink; sums[n][2 * h + 1] *= shrink; }}",
              parts_of_head());
    out_.close();
  }

  // Two scores side by side are a register of the next product's operand.
  void emit_values() {
    each("j", tile_.keys / 16);
    out_.line("unsigned int fp[4];");
    out_.line("fp[0] = {};", pack("scores[2 * j][0]", "scores[2 * j][1]"));
    out_.line("fp[1] = {};", pack("scores[2 * j][2]", "scores[2 * j][3]"));
    out_.line("fp[2] = {};", pack("scores[2 * j + 1][0]", "scores[2 * j + 1][1]"));
    out_.line("fp[3] = {};", pack("scores[2 * j + 1][2]", "scores[2 * j + 1][3]"));
    each("n", static_cast<int>(spec_.head) / 16);
    out_.line("unsigned int fv[4];");
    out_.line("{};",
              out_.call("load_turned", "fv, at_v + " + place("j * 16 + lane % 16", "n * 2 + lane / 16", pitch_)));
    out_.line("{};", out_.call(multiply(), "sums[2 * n], fp, fv"));
    out_.line("{};", out_.call(multiply(), "sums[2 * n + 1], fp, fv + 2"));
    out_.close();
    out_.close();
  }

  // The warps of a row of the block leave peaks, totals and sums in shared memory; each merges some of the columns.
  void merge_warps() {
    const int one = 16 * (static_cast<int>(spec_.head) + 2);
    const std::string four = out_.vector_type(DType::FLOAT32, 4);
    out_.line("__syncthreads();");
    out_.line("float* const left = (float*)memory + warp_q * {};", tile_.warps_k * one);
    out_.line("float* const mine = left + warp_k * {};", one);
    each("h", 2);
    for (int lanes : {1, 2}) out_.line("total[h] += __shfl_xor_sync(0xffffffffu, total[h], {});", lanes);
    out_.line("mine[lane / 4 + h * 8] = peak[h];");
    out_.line("mine[16 + lane / 4 + h * 8] = total[h];");
    out_.close();
    each("n", parts_of_head());
    out_.line("{0}* const to = ({0}*)(mine + 32 + n * 128 + lane * 4);", four);
    out_.line("#pragma unroll");
    out_.line("for (int q = 0; q < 4; ++q) to->at[q] = sums[n][q];");
    out_.close();
    out_.line("__syncthreads();");
    out_.line("float shrink[2][{}];", tile_.warps_k);
    each("h", 2);
    out_.line("const int row = lane / 4 + h * 8;");
    out_.line("float high = left[row];");
    out_.line("#pragma unroll");
    out_.line("for (int w = 1; w < {}; ++w) high = fmaxf(high, left[w * {} + row]);", tile_.warps_k, one);
    out_.line("if (high == {}) high = 0.0f;", kMinusInfinity);
    out_.line("total[h] = 0.0f;");
    each("w", tile_.warps_k);
    out_.line("shrink[h][w] = {};", power(fmt::format("left[w * {} + row] - high", one)));
    out_.line("total[h] += left[w * {} + 16 + row] * shrink[h][w];", one);
    out_.close();
    out_.close();
    each("i", own_parts());
    out_.line("const int n = warp_k + i * {};", tile_.warps_k);
    if (parts_of_head() % tile_.warps_k != 0) out_.line("if (n >= {}) continue;", parts_of_head());
    out_.line("#pragma unroll");
    out_.line("for (int q = 0; q < 4; ++q) sums[i][q] = 0.0f;");
    each("w", tile_.warps_k);
    out_.line("const {0} its = *(const {0}*)(left + w * {1} + 32 + n * 128 + lane * 4);", four, one);
    out_.line("#pragma unroll");
    out_.line("for (int q = 0; q < 4; ++q) sums[i][q] += its.at[q] * shrink[q / 2][w];");
    out_.close();
    out_.close();
  }

  void emit_result() {
    out_.line("unsigned short* const y = out + batch * y_batch + head * y_head;");
    each("h", 2);
    if (tile_.warps_k == 1) {
      for (int lanes : {1, 2}) out_.line("total[h] += __shfl_xor_sync(0xffffffffu, total[h], {});", lanes);
    }
    out_.line("const int row = first_row + h * 8;");
    out_.line("if (row >= queries) continue;");
    out_.line("const float factor = 1.0f / total[h];");
    out_.line("unsigned short* const to = y + (long long)row * y_row + warp_k * 8 + lane % 4 * 2;");
    each("i", own_parts());
    if (parts_of_head() % tile_.warps_k != 0) {
      out_.line("if (warp_k + i * {} >= {}) continue;", tile_.warps_k, parts_of_head());
    }
    out_.line("*(unsigned int*)(to + i * {}) = {};", 8 * tile_.warps_k,
              pack("sums[i][2 * h] * factor", "sums[i][2 * h + 1] * factor"));
    out_.close();
    out_.close();
  }

  static constexpr const char* kMinusInfinity = "__int_as_float((int)0xff800000)";

  const AttentionSpec& spec_;
  AttentionTile tile_;
  CudaWriter out_;
  int chunks_, pitch_, keys_;
};

}  // namespace

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

// The device library: small functions that generated CUDA text calls, as text. Only those that a kernel uses are put
// before it. What the C library has under a name of its own (expf, rintf ...) is called directly.
//
// Text under `#ifndef DEEPJIT_EMULATED` is for a GPU only; the emulation on the CPU brings its own.
#include <map>
#include <vector>

#include "base/error.h"
#include "codegen/cuda/emit_cuda_writer.h"

namespace deepjit {

namespace {

constexpr const char* kFloatOfHalf = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ float float_of_half(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
#endif
)";
constexpr const char* kHalfOfFloat = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ unsigned short half_of_float(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#endif
)";

// A bfloat16 is the upper half of a float. Rounds to nearest even; a NaN keeps its upper bits and gets a quiet one.
constexpr const char* kFloatOfBfloat16 = R"(
static __device__ __forceinline__ float float_of_bfloat16(unsigned short x) {
  return __int_as_float((int)((unsigned int)x << 16));
}
)";
constexpr const char* kBfloat16OfFloat = R"(
static __device__ __forceinline__ unsigned short bfloat16_of_float(float x) {
  const unsigned int bits = (unsigned int)__float_as_int(x);
  const unsigned int high = bits >> 16;
  return (unsigned short)(x != x ? high | 0x40u : (bits + (high & 1u) + 0x7fffu) >> 16);
}
)";

// Row buffers: the dynamic shared memory of a block. A launch without it makes the kernel compute values again.
constexpr const char* kRowMemory = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ float* row_memory() {
  extern __shared__ __align__(16) float memory[];
  return memory;
}
static __device__ __forceinline__ long long row_memory_bytes() {
  unsigned int bytes;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}
#endif
)";

// Sizes mostly fit 32 bits, for which division is several times quicker.
constexpr const char* kQuotient = R"(
static __device__ __forceinline__ long long quotient(long long a, long long b) {
  if (((a | b) >> 31) == 0) return (long long)((unsigned int)a / (unsigned int)b);
  return a / b;
}
)";

constexpr const char* kChecked32 = R"(
static __device__ __forceinline__ int checked_i32(int x, long long limit, int* fault, long long number) {
  if (x >= -limit && x < limit) return x;
  *fault = (int)number;
  return 0;
}
)";
constexpr const char* kChecked64 = R"(
static __device__ __forceinline__ long long checked_i64(long long x, long long limit, int* fault, long long number) {
  if (x >= -limit && x < limit) return x;
  *fault = (int)number;
  return 0;
}
)";

constexpr const char* kAligned = R"(
static __device__ __forceinline__ bool is_multiple(long long bytes, int of) { return (bytes & (of - 1)) == 0; }
)";

// Within 1 ulp, for results that are normal numbers.
constexpr const char* kNearReciprocal = R"(
static __device__ __forceinline__ float near_reciprocal(float x) {
#ifdef DEEPJIT_EMULATED
  return 1.0f / x;
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}
)";

// e^-|x| / (1 + e^-|x|), and 1 instead of the upper e for positive x: no overflow, and small results keep their digits.
constexpr const char* kSigmoid32 = R"(
static __device__ __forceinline__ float sigmoid_f32(float x) {
  const float e = expf(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) * near_reciprocal(1.0f + e);
}
)";
constexpr const char* kSigmoid64 = R"(
static __device__ __forceinline__ double sigmoid_f64(double x) {
  const double e = exp(-fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
)";

// What the functions of a family differ in.
struct Types {
  const char* T;
  const char* U;  // its unsigned twin
  const char* t;  // its short name
  const char* least;
  const char* most;
};
constexpr Types kInt32 = {"int", "unsigned int", "i32", "(-2147483647 - 1)", "2147483647"};
constexpr Types kInt64 = {"long long", "unsigned long long", "i64", "(-9223372036854775807LL - 1)",
                          "9223372036854775807LL"};

std::string signed_text(const std::string& name, const Types& t) {
  const auto two = [&](const char* sign) {
    return fmt::format(
        "\nstatic __device__ __forceinline__ {0} {1}_{2}({0} a, {0} b) {{ return ({0})(({3})a {4} ({3})b); }}\n", t.T,
        name, t.t, t.U, sign);
  };
  const auto one = [&](const char* condition) {
    return fmt::format("\nstatic __device__ __forceinline__ {0} {1}_{2}({0} a) {{ return {4}({0})(0 - ({3})a){5}; }}\n",
                       t.T, name, t.t, t.U, condition, *condition != 0 ? " : a" : "");
  };
  if (name == "sum") return two("+");
  if (name == "difference") return two("-");
  if (name == "product") return two("*");
  if (name == "negative") return one("");
  return one("a < 0 ? ");  // magnitude
}

// NaN stays: a comparison with it fails and gives the second operand, right when that one is the NaN.
std::string extreme_text(const std::string& name, const std::string& type, const std::string& t) {
  const char* sign = name == "lower" ? "<" : ">";
  const char* nan = t[0] == 'f' ? "a != a ? a : " : "";
  const std::string compare = fmt::format("  return {}a {} b ? a : b;\n", nan, sign);
  std::string text = compare;
  if (t == "f32") {
    text = fmt::format(
        "#if defined(DEEPJIT_EMULATED) || __CUDA_ARCH__ < 800\n{}#else\n  float y;\n"
        "  asm(\"{}.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));\n  return y;\n#endif\n",
        compare, name == "lower" ? "min" : "max");
  }
  return fmt::format("\nstatic __device__ __forceinline__ {0} {1}_{2}({0} a, {0} b) {{\n{3}}}\n", type, name, t, text);
}

// Truncates and saturates; NaN gives 0.
std::string conversion_text(const Types& to, bool from_double) {
  const bool narrow = to.t[1] == '3';
  const std::string end = std::string(narrow ? "2147483648.0" : "9223372036854775808.0") + (from_double ? "" : "f");
  return fmt::format(R"(
static __device__ __forceinline__ {0} to_{1}_from_{2}({3} x) {{
  if (x != x) return 0;
  return x >= {4} ? {5} : x <= -{4} ? {6} : ({0})x;
}}
)",
                     to.T, to.t, from_double ? "f64" : "f32", from_double ? "double" : "float", end, to.most, to.least);
}

// A function of a family by its name: "sum_i32", "lower_f64", "to_i64_from_f32".
std::string family_text(const std::string& name) {
  for (const Types* t : {&kInt32, &kInt64}) {
    for (bool from_double : {false, true}) {
      if (name == fmt::format("to_{}_from_{}", t->t, from_double ? "f64" : "f32"))
        return conversion_text(*t, from_double);
    }
    for (const char* family : {"sum", "difference", "product", "negative", "magnitude"}) {
      if (name == fmt::format("{}_{}", family, t->t)) return signed_text(family, *t);
    }
  }
  for (const char* family : {"lower", "upper"}) {
    for (auto [type, t] : {std::pair{"float", "f32"}, {"double", "f64"}, {"int", "i32"}, {"long long", "i64"}}) {
      if (name == fmt::format("{}_{}", family, t)) return extreme_text(family, type, t);
    }
  }
  throw Error(Code::INTERNAL, "codegen: the device library has no " + name);
}

std::string single_text(const std::string& name) {
  static const std::map<std::string, const char*> texts = {
      {"float_of_half", kFloatOfHalf},
      {"half_of_float", kHalfOfFloat},
      {"float_of_bfloat16", kFloatOfBfloat16},
      {"bfloat16_of_float", kBfloat16OfFloat},
      {"row_memory", kRowMemory},
      {"row_memory_bytes", kRowMemory},
      {"quotient", kQuotient},
      {"is_multiple", kAligned},
      {"checked_i32", kChecked32},
      {"checked_i64", kChecked64},
      {"near_reciprocal", kNearReciprocal},
      {"sigmoid_f32", kSigmoid32},
      {"sigmoid_f64", kSigmoid64},
  };
  if (const auto found = texts.find(name); found != texts.end()) return found->second;
  if (const char* text = product_library_text(name)) return text;
  if (const std::string text = group_library_text(name); !text.empty()) return text;
  return family_text(name);
}

// The text of a function behind those of the functions that it calls, each text once.
void add_text(const std::string& name, std::set<std::string>& added, std::string& all) {
  static const std::map<std::string, std::vector<std::string>> calls = {
      {"sigmoid_f32", {"near_reciprocal"}},
      {"swizzled_memory", {"row_memory"}},
      {"pack_halves", {"half_of_float"}},
      {"floats_of_halves", {"float_of_half"}},
      {"pack_bfloats", {"bfloat16_of_float"}},
      {"copy_chunk_16", {"Chunk16", "copy_later"}},
      {"near_erf", {"near_reciprocal", "power_of_two"}},
      {"near_gelu", {"near_reciprocal", "power_of_two"}},
      {"copy_chunk_32", {"Chunk16", "copy_later"}},
      {"share_tile", {"barrier_wait"}},
      {"copies_tell", {"barrier_wait"}},
      {"load_rows", {"barrier_wait"}},
      {"tell_cluster", {"barrier_wait"}},
  };
  if (name.starts_with("group_multiply_")) add_text("group_place", added, all);
  if (const auto found = calls.find(name); found != calls.end()) {
    for (const std::string& called : found->second) add_text(called, added, all);
  }
  const std::string text = single_text(name);
  if (added.insert(text).second) all += text;
}

}  // namespace

std::string cuda_library_text(const std::set<std::string>& functions) {
  std::set<std::string> added;
  std::string all;
  for (const std::string& name : functions) add_text(name, added, all);
  return all;
}

}  // namespace deepjit

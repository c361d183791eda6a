// The frame of a window kernel, and how a thread walks its windows.
#include "base/error.h"
#include "base/sha256.h"
#include "codegen/contract/window_emitter.h"
#include "codegen/cuda/emit_cuda_scalar.h"

namespace deepjit {

namespace {

constexpr int64_t kMostUnrolled = 512;  // multiplications of straight code

}  // namespace

WindowEmitter::WindowEmitter(const WindowSpec& spec, const WindowTile& tile)
    : spec_(spec), tile_(tile), element_(cuda_memory_type(spec.type)) {
  if (tile.shares()) shared_ = shared_window(spec, tile);
}

ContractText WindowEmitter::run(const std::string& name) {
  emit_arguments(name);
  if (tile_.shares())
    emit_shared_place();
  else
    emit_place();
  emit_sums();
  emit_still_operands();
  emit_windows();
  emit_results();
  for (int open = tile_.shares() ? 3 : 2; open > 0; --open) out_.close();
  return {name, out_.finish(), shared_.pixels_bytes + shared_.weights_bytes};
}

void WindowEmitter::emit_arguments(const std::string& name) {
  out_.line("extern \"C\" __global__ void __launch_bounds__({}) {}(", tile_.threads, name);
  std::vector<std::string> types(static_cast<size_t>(spec_.inputs), "void");
  types[0] = element_;
  if (spec_.has_weights()) types[1] = element_;
  for (const EpilogueOperand& o : spec_.epilogue.operands) {
    types[static_cast<size_t>(o.input)] = cuda_memory_type(o.dtype);
  }
  for (size_t i = 0; i < types.size(); ++i) out_.line("    const {}* in{},", types[i], i);
  out_.line("    {}* out,", element_);
  std::string more;
  for (size_t i = 0; i < spec_.epilogue.operands.size(); ++i) {
    more += fmt::format(", long long x{0}_1, long long x{0}_2", i);
  }
  out_.open("    long long images, long long height_, long long width_, long long out_height_, long long out_width_{})",
            more);
  out_.line("const int height = (int)height_, width = (int)width_;");
  out_.line("const int out_height = (int)out_height_, out_width = (int)out_width_;");
  out_.line("const long long columns = {};", spec_.image.channels);
}

void WindowEmitter::emit_place() {
  const int64_t chunks = spec_.image.channels / tile_.chunk;
  out_.line("const unsigned int groups = ((unsigned int)out_width + {0}) / {1};", tile_.pixels - 1, tile_.pixels);
  out_.line("const unsigned int lines = ((unsigned int)out_height + {0}) / {1};", tile_.rows - 1, tile_.rows);
  out_.line("const unsigned int items = (unsigned int)images * lines * groups * {}u;", chunks);
  out_.open("for (unsigned int item = blockIdx.x * {0}u + threadIdx.x; item < items; item += gridDim.x * {0}u)",
            tile_.threads);
  out_.line("const int c = (int)(item % {}u) * {};", chunks, tile_.chunk);
  out_.line("unsigned int rest = item / {}u;", chunks);
  out_.line("const int first = (int)(rest % groups) * {}; rest /= groups;", tile_.pixels);
  out_.line("const int line = (int)(rest % lines) * {};", tile_.rows);
  out_.line("const int image = (int)(rest / lines);");
}

void WindowEmitter::emit_sums() {
  out_.line("const int top = line * {} - {}, left = first * {} - {};", spec_.image.strides[0], spec_.image.pads[0],
            spec_.image.strides[1], spec_.image.pads[1]);
  out_.line("float sums[{}][{}][{}];", tile_.rows, tile_.pixels, tile_.chunk);
  out_.line("#pragma unroll");
  out_.open("for (int r = 0; r < {}; ++r)", tile_.rows);
  out_.line("#pragma unroll");
  out_.open("for (int p = 0; p < {}; ++p)", tile_.pixels);
  out_.line("#pragma unroll");
  out_.line("for (int k = 0; k < {}; ++k) sums[r][p][k] = {};", tile_.chunk,
            spec_.kind == Kind::MAXIMUM ? "__int_as_float((int)0xff800000)" : "0.0f");
  out_.close();
  out_.close();
}

std::string WindowEmitter::packed(int count) {
  const bool pairs = spec_.type != DType::FLOAT32 && count > 1;
  return pairs ? out_.vector_type(DType::INT32, count / 2) : out_.vector_type(spec_.type, count);
}

// Lines that put `count` packed elements into floats.
void WindowEmitter::convert(const std::string& to, const std::string& from, int count) {
  if (spec_.type == DType::FLOAT32 || count == 1) {
    out_.open_lanes(count);
    out_.line("{}[k] = {};", to, cuda_text::from_memory(out_, from + ".at[k]", spec_.type));
    return out_.close();
  }
  const std::string pair = "(unsigned int)" + from + ".at[k]";
  out_.open_lanes(count / 2);
  if (spec_.type == DType::FLOAT16) {
    out_.line("{};", out_.call("floats_of_halves", pair + ", " + to + " + 2 * k"));
  } else {
    out_.line("{}[2 * k] = __int_as_float((int)({} << 16));", to, pair);
    out_.line("{}[2 * k + 1] = __int_as_float((int)({} & 0xffff0000u));", to, pair);
  }
  out_.close();
}

// What a pixel outside of the image holds: what no maximum takes, else zero.
std::string WindowEmitter::lowest(bool pair) const {
  if (spec_.kind != Kind::MAXIMUM) return "0";
  if (spec_.type == DType::FLOAT32) return "__int_as_float((int)0xff800000)";
  const std::string one = spec_.type == DType::FLOAT16 ? "fc00" : "ff80";
  return std::string(pair ? "(int)0x" + one : "0x") + one + "u";
}

// One row of the windows after another: what several results read is loaded once. All loads of a row are under way
// before the first is used.
void WindowEmitter::emit_windows() {
  const ContractImage& image = spec_.image;
  const WindowRows rows = window_rows(spec_, tile_);
  const int64_t work = image.kernel[0] * image.kernel[1] * tile_.rows * tile_.pixels * tile_.chunk;
  out_.line("{}", work <= kMostUnrolled ? "#pragma unroll" : "#pragma unroll 1");
  out_.open("for (int dy = 0; dy < {}; ++dy)", rows.count);
  out_.line("const int y = top + dy * {};", rows.step);
  out_.line("if (y < 0 || y >= height) continue;");
  emit_source();
  if (window_reach(spec_, tile_) <= kMostHeldPixels)
    emit_held();
  else
    emit_streamed();
  out_.close();
}

// Where the row starts for the thread.
void WindowEmitter::emit_source() {
  if (tile_.shares()) {
    out_.line("const unsigned char* const from = start + dy * {};", window_rows(spec_, tile_).step * shared_.pitch);
  } else {
    out_.line("const {}* const from = in0 + (((long long)image * height + y) * width + left) * columns + c;", element_);
  }
}

// Pixel i of the row.
void WindowEmitter::emit_pixel(const std::string& to) {
  if (tile_.shares()) {
    return out_.line("{0} = *(const {1}*)(from + i * {2});", to, packed(), tile_.channels * size());
  }
  out_.open("if ((unsigned int)(left + i) < (unsigned int)width)");
  out_.line("{0} = *(const {1}*)(from + i * columns);", to, packed());
  out_.otherwise();
  out_.open_lanes(in_pairs() ? tile_.chunk / 2 : tile_.chunk);
  out_.line("{}.at[k] = {};", to, lowest(in_pairs()));
  out_.close();
  out_.close();
}

// A row in registers, converted once for all rows of results whose windows have it.
void WindowEmitter::emit_held() {
  const ContractImage& image = spec_.image;
  const WindowRows rows = window_rows(spec_, tile_);
  const int64_t reach = window_reach(spec_, tile_);
  out_.line("{} row[{}];", packed(), reach);
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", reach);
  emit_pixel("row[i]");
  out_.close();
  out_.line("float x[{}][{}];", reach, tile_.chunk);
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", reach);
  convert("x[i]", "row[i]", tile_.chunk);
  out_.close();
  out_.line("#pragma unroll");
  out_.open("for (int r = 0; r < {}; ++r)", tile_.rows);
  out_.line("const int below = dy * {} - r * {};", rows.step, image.strides[0]);
  if (tile_.rows > 1) {
    const std::string last = std::to_string((image.kernel[0] - 1) * image.dilations[0]);
    const std::string between = image.dilations[0] > 1 ? fmt::format(" || below % {} != 0", image.dilations[0]) : "";
    out_.line("if (below < 0 || below > {}{}) continue;", last, between);
  }
  out_.line("const int tap = below / {};", image.dilations[0]);
  if (spec_.has_weights()) emit_weights();
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", reach);
  emit_uses("x[i]");
  out_.close();
  out_.close();
}

// A row too long for registers: pixel by pixel.
void WindowEmitter::emit_streamed() {
  check_internal(tile_.rows == 1, "codegen: rows of a window that are not held");
  out_.line("const int r = 0, tap = dy;");
  if (spec_.has_weights()) emit_weights();
  out_.open("for (int i = 0; i < {}; ++i)", window_reach(spec_, tile_));
  out_.line("{} one;", packed());
  emit_pixel("one");
  out_.line("float x[{}];", tile_.chunk);
  convert("x", "one", tile_.chunk);
  emit_uses("x");
  out_.close();
}

void WindowEmitter::emit_weights() {
  const int64_t across = spec_.image.kernel[1];
  out_.line("float weights[{}][{}];", across, tile_.chunk);
  out_.line("#pragma unroll");
  out_.open("for (int dx = 0; dx < {}; ++dx)", across);
  if (tile_.shares()) {
    out_.line("const {1} w = *(const {1}*)(shared_weights + (tap * {0} + dx) * {2} + c - c0);", across,
              out_.vector_type(DType::FLOAT32, tile_.chunk), tile_.channels);
    out_.open_lanes(tile_.chunk);
    out_.line("weights[dx][k] = w.at[k];");
    out_.close();
  } else {
    out_.line("const {1} w = *(const {1}*)(in1 + (tap * {0} + dx) * columns + c);", across, packed());
    convert("weights[dx]", "w", tile_.chunk);
  }
  out_.close();
}

void WindowEmitter::emit_uses(const std::string& pixel) {
  const ContractImage& image = spec_.image;
  out_.line("#pragma unroll");
  out_.open("for (int p = 0; p < {}; ++p)", tile_.pixels);
  out_.line("#pragma unroll");
  out_.open("for (int dx = 0; dx < {}; ++dx)", image.kernel[1]);
  out_.line("if (p * {} + dx * {} != i) continue;", image.strides[1], image.dilations[1]);
  out_.open_lanes(tile_.chunk);
  switch (spec_.kind) {
    case Kind::DEPTHWISE:
      out_.line("sums[r][p][k] = __fmaf_rn({}[k], weights[dx][k], sums[r][p][k]);", pixel);
      break;
    case Kind::MAXIMUM:
      out_.line("sums[r][p][k] = {};", out_.call("upper_f32", "sums[r][p][k], " + pixel + "[k]"));
      break;
    case Kind::AVERAGE:
      out_.line("sums[r][p][k] += {}[k];", pixel);
  }
  for (int i = 0; i < 3; ++i) out_.close();
}

ContractText emit_window(const WindowSpec& spec, const WindowTile& tile) {
  const std::string reason = why_not_tile(spec, tile);
  check_internal(reason.empty(), "codegen: a tile of a window that does not fit: " + reason);
  const std::string text = WindowEmitter(spec, tile).run("window").source;
  return WindowEmitter(spec, tile).run("window_" + sha256_hex(text).substr(0, 12));
}

}  // namespace deepjit

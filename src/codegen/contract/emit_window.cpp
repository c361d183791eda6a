#include <cstdio>

#include "base/error.h"
#include "base/sha256.h"
#include "codegen/contract/window.h"
#include "codegen/cuda/emit_cuda_scalar.h"

namespace deepjit {

namespace {

constexpr int64_t kMostHeld = 24;       // pixels of a row that a thread holds
constexpr int64_t kMostUnrolled = 512;  // multiplications of straight code

class WindowEmitter {
 public:
  WindowEmitter(const WindowSpec& spec, const WindowTile& tile)
      : spec_(spec), tile_(tile), element_(cuda_memory_type(spec.type)), chunk_(tile.chunk) {}

  ContractText run(const std::string& name) {
    emit_arguments(name);
    emit_place();
    emit_windows();
    emit_results();
    out_.close();
    out_.close();
    return {name, out_.finish(), 0};
  }

 private:
  using Kind = WindowSpec::Kind;

  void emit_arguments(const std::string& name) {
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
    out_.open(
        "    long long images, long long height_, long long width_, long long out_height_, long long out_width_{})",
        more);
    out_.line("const int height = (int)height_, width = (int)width_;");
    out_.line("const int out_height = (int)out_height_, out_width = (int)out_width_;");
    out_.line("const long long columns = {};", spec_.image.channels);
  }

  void emit_place() {
    const int64_t chunks = spec_.image.channels / chunk_;
    out_.line("const unsigned int groups = ((unsigned int)out_width + {0}) / {1};", tile_.pixels - 1, tile_.pixels);
    out_.line("const unsigned int items = (unsigned int)images * (unsigned int)out_height * groups * {}u;", chunks);
    out_.open("for (unsigned int item = blockIdx.x * {0}u + threadIdx.x; item < items; item += gridDim.x * {0}u)",
              tile_.threads);
    out_.line("const int c = (int)(item % {}u) * {};", chunks, chunk_);
    out_.line("unsigned int rest = item / {}u;", chunks);
    out_.line("const int first = (int)(rest % groups) * {}; rest /= groups;", tile_.pixels);
    out_.line("const int line = (int)(rest % (unsigned int)out_height);");
    out_.line("const int image = (int)(rest / (unsigned int)out_height);");
    out_.line("const int top = line * {} - {}, left = first * {} - {};", spec_.image.strides[0], spec_.image.pads[0],
              spec_.image.strides[1], spec_.image.pads[1]);
    out_.line("float sums[{}][{}];", tile_.pixels, chunk_);
    out_.line("#pragma unroll");
    out_.open("for (int p = 0; p < {}; ++p)", tile_.pixels);
    out_.line("#pragma unroll");
    out_.line("for (int k = 0; k < {}; ++k) sums[p][k] = {};", chunk_,
              spec_.kind == Kind::MAXIMUM ? "__int_as_float((int)0xff800000)" : "0.0f");
    out_.close();
  }

  std::string vector() { return out_.vector_type(spec_.type, chunk_); }
  // Pixels and weights at work: pairs of 16 bits stay together until they are converted, half by half.
  bool in_pairs() const { return spec_.type != DType::FLOAT32 && chunk_ > 1; }
  std::string packed() { return in_pairs() ? out_.vector_type(DType::INT32, chunk_ / 2) : vector(); }
  // Lines that put the elements of a pixel or of weights into floats.
  void convert(const std::string& to, const std::string& from) {
    if (!in_pairs()) {
      out_.open_lanes(chunk_);
      out_.line("{}[k] = {};", to, cuda_text::from_memory(out_, from + ".at[k]", spec_.type));
      return out_.close();
    }
    const std::string pair = "(unsigned int)" + from + ".at[k]";
    out_.open_lanes(chunk_ / 2);
    if (spec_.type == DType::FLOAT16) {
      out_.line("{};", out_.call("floats_of_halves", pair + ", " + to + " + 2 * k"));
    } else {
      out_.line("{}[2 * k] = __int_as_float((int)({} << 16));", to, pair);
      out_.line("{}[2 * k + 1] = __int_as_float((int)({} & 0xffff0000u));", to, pair);
    }
    out_.close();
  }

  // The pixels of a row that the windows of a thread read.
  int64_t reach() const {
    const ContractImage& image = spec_.image;
    return (tile_.pixels - 1) * image.strides[1] + (image.kernel[1] - 1) * image.dilations[1] + 1;
  }

  // One row of the windows after another: what several results read is loaded once. All loads of a row are under way
  // before the first is used; pixels outside are zeros, or what no maximum takes.
  void emit_windows() {
    const ContractImage& image = spec_.image;
    const int64_t work = image.kernel[0] * image.kernel[1] * tile_.pixels * chunk_;
    out_.line("{}", work <= kMostUnrolled ? "#pragma unroll" : "#pragma unroll 1");
    out_.open("for (int dy = 0; dy < {}; ++dy)", image.kernel[0]);
    out_.line("const int y = top + dy * {};", image.dilations[0]);
    out_.line("if (y < 0 || y >= height) continue;");
    out_.line("const {}* const from = in0 + (((long long)image * height + y) * width + left) * columns + c;", element_);
    const bool holds = reach() <= kMostHeld;
    if (holds) {
      out_.line("{} row[{}];", packed(), reach());
      out_.line("#pragma unroll");
      out_.open("for (int i = 0; i < {}; ++i)", reach());
      emit_pixel("row[i]");
      out_.close();
    }
    if (spec_.has_weights()) emit_weights();
    if (holds) out_.line("#pragma unroll");
    out_.open("for (int i = 0; i < {}; ++i)", reach());
    if (!holds) {
      out_.line("{} one;", packed());
      emit_pixel("one");
    }
    emit_uses(holds ? "row[i]" : "one");
    out_.close();
    out_.close();
  }

  void emit_pixel(const std::string& to) {
    out_.open("if ((unsigned int)(left + i) < (unsigned int)width)");
    out_.line("{0} = *(const {1}*)(from + i * columns);", to, packed());
    out_.otherwise();
    out_.open_lanes(in_pairs() ? chunk_ / 2 : chunk_);
    out_.line("{}.at[k] = {};", to, spec_.kind == Kind::MAXIMUM ? lowest() : "0");
    out_.close();
    out_.close();
  }

  std::string lowest() const {
    if (spec_.type == DType::FLOAT32) return "__int_as_float((int)0xff800000)";
    const std::string one = spec_.type == DType::FLOAT16 ? "fc00" : "ff80";
    return std::string(in_pairs() ? "(int)0x" + one : "0x") + one + "u";
  }

  void emit_weights() {
    const int64_t across = spec_.image.kernel[1];
    out_.line("float weights[{}][{}];", across, chunk_);
    out_.line("#pragma unroll");
    out_.open("for (int dx = 0; dx < {}; ++dx)", across);
    out_.line("const {1} w = *(const {1}*)(in1 + (dy * {0} + dx) * columns + c);", across, packed());
    convert("weights[dx]", "w");
    out_.close();
  }

  void emit_uses(const std::string& pixel) {
    const ContractImage& image = spec_.image;
    out_.line("float x[{}];", chunk_);
    convert("x", pixel);
    out_.line("#pragma unroll");
    out_.open("for (int p = 0; p < {}; ++p)", tile_.pixels);
    out_.line("#pragma unroll");
    out_.open("for (int dx = 0; dx < {}; ++dx)", image.kernel[1]);
    out_.line("if (p * {} + dx * {} != i) continue;", image.strides[1], image.dilations[1]);
    out_.open_lanes(chunk_);
    switch (spec_.kind) {
      case Kind::DEPTHWISE:
        out_.line("sums[p][k] = __fmaf_rn(x[k], weights[dx][k], sums[p][k]);");
        break;
      case Kind::MAXIMUM:
        out_.line("sums[p][k] = {};", out_.call("upper_f32", "sums[p][k], x[k]"));
        break;
      case Kind::AVERAGE:
        out_.line("sums[p][k] += x[k];");
    }
    for (int i = 0; i < 3; ++i) out_.close();
  }

  // Places of a window along one axis that an average counts.
  std::string count(const char* start, const char* size, size_t axis) const {
    const ContractImage& image = spec_.image;
    const int64_t d = image.dilations[axis];
    const std::string end = spec_.counts_pads ? fmt::format("({} + {})", size, spec_.pads_end[axis]) : size;
    std::string text;
    // Those at start + j * d in [low, end).
    const std::string low = spec_.counts_pads ? "" : fmt::format("{} < 0 ? ({} - {}) / {} : ", start, d - 1, start, d);
    text = fmt::format("((({0} - {1} + {2}) / {3} < {4} ? ({0} - {1} + {2}) / {3} : {4})", end, start, d - 1, d,
                       image.kernel[axis]);
    return text + (low.empty() ? ")" : fmt::format(" - ({}0))", low));
  }

  // Operand i of the epilogue for the place `r`: a vector, or one value.
  void emit_operand(size_t i) {
    const EpilogueOperand& o = spec_.epilogue.operands[i];
    const std::string type = o.columns ? out_.vector_type(o.dtype, chunk_) : cuda_memory_type(o.dtype);
    out_.line("const {0} e{1} = *(const {0}*)(in{2} + {3}{4});", type, i, o.input,
              epilogue_row_offset(o, i, "r", "columns"), o.columns ? " + c" : "");
  }

  bool moves_along_rows(size_t i) const { return spec_.epilogue.operands[i].rows.find('M') != std::string::npos; }

  void emit_results() {
    const size_t operands = spec_.epilogue.operands.size();
    for (size_t i = 0; i < operands; ++i) {
      if (!moves_along_rows(i)) emit_operand(i);
    }
    out_.line("#pragma unroll");
    out_.open("for (int p = 0; p < {}; ++p)", tile_.pixels);
    out_.line("if (first + p >= out_width) break;");
    out_.line("const long long r = ((long long)image * out_height + line) * out_width + first + p;");
    if (spec_.kind == Kind::AVERAGE) {
      out_.line("const int across = left + p * {};", spec_.image.strides[1]);
      out_.line("const float places = (float)({} * {});", count("top", "height", 0), count("across", "width", 1));
    }
    for (size_t i = 0; i < operands; ++i) {
      if (moves_along_rows(i)) emit_operand(i);
    }
    out_.line("{} y;", vector());
    out_.open_lanes(chunk_);
    const std::string sum = spec_.kind == Kind::AVERAGE ? "sums[p][k] / places" : "sums[p][k]";
    const std::string value = emit_epilogue_element(out_, spec_.epilogue, spec_.type, sum, [&](size_t i) {
      return fmt::format("e{}", i) + (spec_.epilogue.operands[i].columns ? ".at[k]" : "");
    });
    out_.line("y.at[k] = {};", cuda_text::to_memory(out_, value, spec_.type));
    out_.close();
    out_.line("*({}*)(out + r * columns + c) = y;", vector());
    out_.close();
  }

  const WindowSpec& spec_;
  WindowTile tile_;
  CudaWriter out_;
  std::string element_;
  int chunk_;
};

}  // namespace

std::string WindowTile::to_string() const { return fmt::format("window{}x{}x{}", pixels, chunk, threads); }

WindowTile WindowTile::parse(const std::string& text) {
  WindowTile t;
  const int found = std::sscanf(text.c_str(), "window%2dx%1dx%4d", &t.pixels, &t.chunk, &t.threads);
  const bool whole = t.chunk == 1 || t.chunk == 2 || t.chunk == 4 || t.chunk == 8;
  const bool fits = found == 3 && t.pixels > 0 && whole && t.threads > 0 && t.threads <= 1024 && t.threads % 32 == 0;
  if (!fits || t.to_string() != text) throw Error(Code::ENGINE_RANGE, "\"" + text + "\" is no tile of a window");
  return t;
}

ContractText emit_window(const WindowSpec& spec, const WindowTile& tile) {
  const std::string text = WindowEmitter(spec, tile).run("window").source;
  return WindowEmitter(spec, tile).run("window_" + sha256_hex(text).substr(0, 12));
}

}  // namespace deepjit

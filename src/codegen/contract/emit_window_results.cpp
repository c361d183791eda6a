// The results of a window kernel: averages divided, the epilogue, and where they go.
#include "codegen/contract/window_emitter.h"
#include "codegen/cuda/emit_cuda_scalar.h"

namespace deepjit {

// Places of a window along one axis that an average counts.
std::string WindowEmitter::count(const char* start, const char* size, size_t axis) const {
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

// Operand i of the epilogue for the result `place`: a vector, or one value.
void WindowEmitter::emit_operand(size_t i) {
  const EpilogueOperand& o = spec_.epilogue.operands[i];
  const std::string type = o.columns ? out_.vector_type(o.dtype, tile_.chunk) : cuda_memory_type(o.dtype);
  out_.line("const {0} e{1} = *(const {0}*)(in{2} + {3}{4});", type, i, o.input,
            epilogue_row_offset(o, i, "place", "columns"), o.columns ? " + c" : "");
}

// Those that all results of a thread share are under way while it works.
void WindowEmitter::emit_still_operands() {
  for (size_t i = 0; i < spec_.epilogue.operands.size(); ++i) {
    if (!moves_along_rows(i)) emit_operand(i);
  }
}

void WindowEmitter::emit_results() {
  out_.line("#pragma unroll");
  out_.open("for (int r = 0; r < {}; ++r)", tile_.rows);
  if (tile_.rows > 1) out_.line("if (line + r >= out_height) break;");
  out_.line("const long long start_place = ((long long)image * out_height + line + r) * out_width + first;");
  out_.line("{}* const to = out + start_place * columns + c;", element_);
  out_.line("#pragma unroll");
  out_.open("for (int p = 0; p < {}; ++p)", tile_.pixels);
  out_.line("const bool there = first + p < out_width;");
  emit_result();
  out_.close();
  out_.close();
}

void WindowEmitter::emit_result() {
  if (spec_.kind == Kind::AVERAGE) {
    out_.line("const int down = top + r * {}, across = left + p * {};", spec_.image.strides[0], spec_.image.strides[1]);
    out_.line("const float places = (float)({} * {});", count("down", "height", 0), count("across", "width", 1));
  }
  bool moves = false;
  for (size_t i = 0; i < spec_.epilogue.operands.size(); ++i) moves = moves || moves_along_rows(i);
  if (moves) out_.line("const long long place = start_place + (there ? p : 0);");
  for (size_t i = 0; i < spec_.epilogue.operands.size(); ++i) {
    if (moves_along_rows(i)) emit_operand(i);
  }
  out_.line("{} y;", vector());
  out_.open_lanes(tile_.chunk);
  const std::string sum = spec_.kind == Kind::AVERAGE ? "sums[r][p][k] / places" : "sums[r][p][k]";
  const std::string value = emit_epilogue_element(out_, spec_.epilogue, spec_.type, sum, [&](size_t i) {
    return fmt::format("e{}", i) + (spec_.epilogue.operands[i].columns ? ".at[k]" : "");
  });
  out_.line("y.at[k] = {};", cuda_text::to_memory(out_, value, spec_.type));
  out_.close();
  out_.line("if (there) *({}*)(to + p * columns) = y;", vector());
}

}  // namespace deepjit

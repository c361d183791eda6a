// How the threads of a block copy tiles into shared memory: each thread has one chunk of 16 bytes in every few rows.
#include "codegen/contract/contract_emitter.h"
#include "codegen/cuda/emit_cuda_scalar.h"

namespace deepjit {

int ContractEmitter::rows_a_pass(const Operand& o) const { return loaders() / chunks_of(o); }

int ContractEmitter::passes_of(const Operand& o) const { return (rows_of(o) + rows_a_pass(o) - 1) / rows_a_pass(o); }

// Passes that not all threads have a row in.
std::string ContractEmitter::row_guard(const Operand& o) const {
  return rows_of(o) % rows_a_pass(o) == 0
             ? ""
             : fmt::format("if ({}_row + i * {} < {}) ", o.name, rows_a_pass(o), rows_of(o));
}

// Can chunks be copied as they are? Then they start at multiples of 16 bytes, and rows end with a whole one.
std::string ContractEmitter::is_whole(const Operand& o) const {
  return fmt::format("((unsigned long long){0} & 15) == 0 && ld{0} % {1} == 0 && {2} % {1} == 0", o.name, spec_.chunk(),
                     o.form == Form::ROWS ? "K" : o.size);
}

// The same of an image, whose channels are known.
bool ContractEmitter::image_is_whole() const {
  return spec_.image.channels % spec_.chunk() == 0 && spec_.image.all_channels % spec_.chunk() == 0;
}

void ContractEmitter::prepare_loads(const Operand& o) {
  out_.line("const int {0}_chunk = {2} % {1}, {0}_row = {2} / {1};", o.name, chunks_of(o),
            tile_.packed() ? "loader" : "thread");
  if (o.form != Form::IMAGE && !has_map()) out_.line("const bool {}_whole = {};", o.name, is_whole(o));
  if (o.form == Form::IMAGE) prepare_image(o);
  if (o.form == Form::ROWS) {
    out_.line("const {0}* const {1}_start = {1} + (long long)({2} + {1}_row) * ld{1};", element_, o.name, o.start);
  }
}

// Of the rows of A, where their windows start: the same for all steps along k.
void ContractEmitter::prepare_image(const Operand& o) {
  const ContractImage& image = spec_.image;
  const int passes = passes_of(o);
  out_.line("int a_start[{0}], a_y[{0}], a_x[{0}];", passes);
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", passes);
  out_.line("const int m = m0 + a_row + i * {};", rows_a_pass(o));
  out_.line("const int x = m % out_width_, rest = m / out_width_, y = rest % out_height_, which = rest / out_height_;");
  if (image.transposed) {
    out_.line("a_y[i] = m < M ? y + {} : -(1 << 29);", image.pads[0]);
    out_.line("a_x[i] = x + {};", image.pads[1]);
    out_.line("a_start[i] = which * height_ * width_ * {};", image.all_channels);
  } else {
    out_.line("const int top = y * {} - {}, left = x * {} - {};", image.strides[0], image.pads[0], image.strides[1],
              image.pads[1]);
    out_.line("a_y[i] = m < M ? top : -(1 << 29);");
    out_.line("a_x[i] = left;");
    out_.line("a_start[i] = ((which * height_ + top) * width_ + left) * {};", image.all_channels);
  }
  out_.close();
}

void ContractEmitter::emit_loads(const Operand& o) {
  if (o.form == Form::ROWS) return load_rows(o);
  if (o.form == Form::COLUMNS) return load_columns(o);
  load_image(o);
}

// The copies of one operand's chunks: as they are where they are aligned, else element by element. `valid` of their
// elements are there.
void ContractEmitter::copy_chunks(const Operand& o, const std::string& row, const std::string& chunk,
                                  const std::string& from, const std::string& valid) {
  const std::string to = fmt::format("to_{} + {}", o.name, chunk_place(o, row, chunk));
  const auto loop = [&](const char* unroll, const std::string& copy) {
    out_.line("#pragma unroll{}", unroll);
    out_.open("for (int i = 0; i < {}; ++i)", passes_of(o));
    out_.line("const int row = {}_row + i * {};", o.name, rows_a_pass(o));
    out_.line("{}{};", row_guard(o), copy);
    out_.close();
  };
  out_.open("if ({}_whole)", o.name);
  loop("", out_.call("copy_or_zero", fmt::format("{}, {}, ({}) != 0", to, from, valid)));
  out_.otherwise();
  loop(" 1",
       out_.call(size_ == 4 ? "copy_chunk_32" : "copy_chunk_16", fmt::format("{}, {}, {}, false", to, from, valid)));
  out_.close();
}

void ContractEmitter::load_rows(const Operand& o) {
  out_.line("const int {0}_k = ahead * {1} + {0}_chunk * {2};", o.name, tile_.k, spec_.chunk());
  out_.line("const int {0}_left = K - {0}_k < 0 ? 0 : K - {0}_k < {1} ? K - {0}_k : {1};", o.name, spec_.chunk());
  out_.line("const {0}* const {1}_from = {1}_start + {1}_k;", element_, o.name);
  copy_chunks(o, "row", fmt::format("{}_chunk", o.name),
              fmt::format("{0}_from + i * {1} * ld{0}", o.name, rows_a_pass(o)),
              fmt::format("{0} + row < {1} ? {2}_left : 0", o.start, o.size, o.name));
}

void ContractEmitter::load_columns(const Operand& o) {
  out_.line("const int {0}_at = {1} + {0}_chunk * {2};", o.name, o.start, spec_.chunk());
  out_.line("const int {0}_left = {1} - {0}_at < 0 ? 0 : {1} - {0}_at < {2} ? {1} - {0}_at : {2};", o.name, o.size,
            spec_.chunk());
  out_.line("const int {0}_k = ahead * {1} + {0}_row;", o.name, tile_.k);
  out_.line("const {0}* const {1}_from = {1} + (long long){1}_k * ld{1} + {1}_at;", element_, o.name);
  copy_chunks(o, "row", fmt::format("{}_chunk", o.name),
              fmt::format("{0}_from + i * {1} * ld{0}", o.name, rows_a_pass(o)),
              fmt::format("{0}_k + i * {1} < K ? {0}_left : 0", o.name, rows_a_pass(o)));
}

// On the chunks that this thread copied itself, before others see them. What lies beyond A's rows and k stays zero.
void ContractEmitter::emit_prologue() {
  const Operand o = a();
  const int chunk = spec_.chunk();
  const size_t before = spec_.epilogue.operands.size();
  out_.line("unsigned char* const tile_a = memory + use_slot * {};", tile_bytes(o) + tile_bytes(b()));
  out_.line("const int c = step * {} + a_chunk * {};", tile_.k, chunk);
  out_.line("const int valid = K - c < {0} ? K - c : {0};", chunk);
  out_.line("const bool whole = K % {} == 0;", chunk);
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", passes_of(o));
  out_.line("const int row = a_row + i * {}, r = m0 + row;", rows_a_pass(o));
  out_.line("if (row >= {} || r >= M || valid <= 0) continue;", rows_of(o));
  out_.line("Chunk16* const at = (Chunk16*)(tile_a + {});", chunk_place(o, "row", "a_chunk"));
  out_.line("{} x[{}];", vector_align(spec_.type), chunk);
  out_.line("*(Chunk16*)x = *at;");
  for (size_t i = 0; i < spec_.prologue.operands.size(); ++i) emit_operand(before + i, "r", "c", "K", "");
  out_.open_lanes(chunk);
  const std::string value = emit_epilogue_element(
      out_, spec_.prologue, spec_.type, cuda_text::from_memory(out_, "x[k]", spec_.type),
      [&](size_t i) { return fmt::format("e{}", before + i) + (spec_.prologue.operands[i].columns ? "[k]" : ""); });
  out_.line("if (k < valid) x[k] = {};", cuda_text::to_memory(out_, value, spec_.type));
  out_.close();
  out_.line("*at = *(const Chunk16*)x;");
  out_.close();
}

// k runs over the window's places and, within, over channels rounded up to whole chunks.
void ContractEmitter::load_image(const Operand& o) {
  const ContractImage& image = spec_.image;
  const int64_t chunk = spec_.chunk();
  const int64_t padded = (image.channels + chunk - 1) / chunk * chunk;
  out_.line("const int a_k = ahead * {} + a_chunk * {};", tile_.k, chunk);
  out_.line("const int tap = a_k / {0}, channel = a_k % {0};", padded);
  out_.line("const int dy = tap / {0} * {1}, dx = tap % {0} * {2};", image.kernel[1], image.dilations[0],
            image.dilations[1]);
  if (padded == image.channels) {
    out_.line("const int a_left = a_k < K ? {} : 0;", chunk);
  } else {
    out_.line("const int a_left = a_k >= K ? 0 : {0} - channel < {1} ? {0} - channel : {1};", image.channels, chunk);
  }
  if (!image.transposed) out_.line("const int shift = (dy * width_ + dx) * {} + channel;", image.all_channels);
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", passes_of(o));
  out_.line("const int row = a_row + i * {};", rows_a_pass(o));
  if (image.transposed) {
    out_.line("const int down = a_y[i] - dy, right = a_x[i] - dx;");
    out_.line("const int y = down / {}, x = right / {};", image.strides[0], image.strides[1]);
    out_.line(
        "const bool inside = down >= 0 && right >= 0 && down % {} == 0 && right % {} == 0 && y < height_ && x < "
        "width_;",
        image.strides[0], image.strides[1]);
    out_.line("const int from = a_start[i] + (y * width_ + x) * {} + channel;", image.all_channels);
  } else {
    out_.line(
        "const bool inside = (unsigned int)(a_y[i] + dy) < (unsigned int)height_ && "
        "(unsigned int)(a_x[i] + dx) < (unsigned int)width_;");
    out_.line("const int from = a_start[i] + shift;");
  }
  const bool whole = image_is_whole();
  const std::string place = chunk_place(o, "row", "a_chunk");
  const std::string copy =
      whole ? out_.call("copy_or_zero", fmt::format("to_a + {}, a + from, inside && a_left != 0", place))
            : out_.call(size_ == 4 ? "copy_chunk_32" : "copy_chunk_16",
                        fmt::format("to_a + {}, a + from, inside ? a_left : 0, false", place));
  out_.line("{}{};", row_guard(o), copy);
  out_.close();
}

}  // namespace deepjit

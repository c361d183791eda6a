// What a block of a window kernel shares: its part of an image with the pads around it, and its weights as floats.
#include <algorithm>

#include "codegen/contract/window_emitter.h"

namespace deepjit {

// The condition that chunk `part` of a shared pixel is there.
std::string WindowEmitter::chunk_guard() const {
  return spec_.image.channels % tile_.channels == 0 ? "true"
                                                    : fmt::format("c0 + part * {} < columns", chunk_of_copies());
}

// A loop of a block's threads over so many pieces of work.
void WindowEmitter::open_each(const std::string& i, int64_t count) {
  if (count <= tile_.threads) return out_.open("if (const int {0} = (int)threadIdx.x; {0} < {1})", i, count);
  out_.line("#pragma unroll 1");
  out_.open("for (int {0} = (int)threadIdx.x; {0} < {1}; {0} += {2})", i, count, tile_.threads);
}

void WindowEmitter::emit_shared_place() {
  const ContractImage& image = spec_.image;
  const int64_t parts = (image.channels + tile_.channels - 1) / tile_.channels;
  out_.line("unsigned int place = blockIdx.x;");
  out_.line("const int c0 = (int)(place % {0}u) * {1}; place /= {0}u;", parts, tile_.channels);
  out_.line("const unsigned int tiles = ((unsigned int)out_width + {0}) / {1};", tile_.across - 1, tile_.across);
  out_.line("const unsigned int lines = ((unsigned int)out_height + {0}) / {1};", tile_.down - 1, tile_.down);
  out_.line("int first0 = 0, line0 = 0;");
  out_.open("if (tiles > 1)");
  out_.line("first0 = (int)(place % tiles) * {}; place /= tiles;", tile_.across);
  out_.close();
  out_.open("if (lines > 1)");
  out_.line("line0 = (int)(place % lines) * {}; place /= lines;", tile_.down);
  out_.close();
  out_.line("const int image = (int)place;");
  out_.line("unsigned char* const shared = (unsigned char*){};", out_.call("row_memory", ""));
  emit_shared_pixels();
  emit_shared_weights();
  out_.line("copies_left(0);");
  out_.line("__syncthreads();");
  // Neighbours down the image come before those along a row: the pitch keeps them in banks of their own.
  const int lanes = tile_.channels / tile_.chunk, down = tile_.down / tile_.rows;
  open_each("item", tile_.items());
  out_.line("const int c = c0 + item % {} * {};", lanes, tile_.chunk);
  out_.line("const int line = line0 + item / {} % {} * {};", lanes, down, tile_.rows);
  out_.line("const int first = first0 + item / {} * {};", lanes * down, tile_.pixels);
  out_.open("if (c < columns && line < out_height && first < out_width)");
  out_.line("const unsigned char* const start = shared + (line - line0) * {} + (first - first0) * {} + (c - c0) * {};",
            image.strides[0] * shared_.pitch, image.strides[1] * tile_.channels * size(), size());
}

// Each thread copies one chunk of one column of pixels in every few rows: what lies outside of the image is zero.
void WindowEmitter::emit_shared_pixels() {
  const ContractImage& image = spec_.image;
  const int64_t parts = tile_.channels / chunk_of_copies();
  const int64_t row = parts * shared_.width;
  const int64_t together = std::clamp<int64_t>(tile_.threads / row, 1, shared_.height);  // rows
  out_.line("const int top0 = line0 * {} - {}, left0 = first0 * {} - {};", image.strides[0], image.pads[0],
            image.strides[1], image.pads[1]);
  open_each("i", row * together);
  out_.line("const int part = i % {}, across = i / {} % {}, down0 = i / {};", parts, parts, shared_.width, row);
  out_.line("const bool inside = (unsigned int)(left0 + across) < (unsigned int)width{};", " && " + chunk_guard());
  // Places of an image are counted in 32 bits; those above it wrap around and are not read.
  out_.line("unsigned int from = (((unsigned int)image * height + top0 + down0) * width + left0 + across) * {}u",
            image.channels);
  out_.line("    + c0 + part * {};", chunk_of_copies());
  out_.line("unsigned char* const to = shared + down0 * {} + across * {} + part * 16;", shared_.pitch,
            tile_.channels * size());
  out_.line("const unsigned int further = (unsigned int)width * {}u;", together * image.channels);
  out_.line("#pragma unroll");
  out_.open("for (int down = 0; down < {}; down += {})", shared_.height, together);
  if (shared_.height % together != 0) out_.line("if (down0 + down >= {}) break;", shared_.height);
  out_.line("const bool there = inside && (unsigned int)(top0 + down0 + down) < (unsigned int)height;");
  out_.line("{};", out_.call("copy_or_zero", fmt::format("to + down * {}, in0 + from, there", shared_.pitch)));
  out_.line("from += further;");
  out_.close();
  out_.close();
  out_.line("{};", out_.call("copies_end", ""));
}

void WindowEmitter::emit_shared_weights() {
  const int count = chunk_of_copies();
  const int64_t parts = tile_.channels / count;
  const int64_t places = spec_.image.kernel[0] * spec_.image.kernel[1];
  out_.line("float* const shared_weights = (float*)(shared + {});", shared_.pixels_bytes);
  open_each("i", places * parts);
  out_.line("const int part = i % {};", parts);
  out_.open("if ({})", chunk_guard());
  out_.line("const {0} w = *(const {0}*)(in1 + i / {1} * columns + c0 + part * {2});", packed(count), parts, count);
  const std::string floats = out_.vector_type(DType::FLOAT32, count);
  out_.line("{} converted;", floats);
  convert("converted.at", "w", count);
  out_.line("*({}*)(shared_weights + i * {}) = converted;", floats, count);
  out_.close();
  out_.close();
}

}  // namespace deepjit

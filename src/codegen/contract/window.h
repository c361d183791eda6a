// Depthwise convolutions and pools as CUDA text: each thread takes a chunk of channels of a few neighbouring results
// and walks their windows, over an image with channels last. Reads come from memory and caches directly, or from a part
// of the image, and the weights as floats, that the block has put into shared memory.
#pragma once

#include "codegen/contract/contract.h"

namespace deepjit {

struct WindowSpec {
  enum class Kind { DEPTHWISE, MAXIMUM, AVERAGE };
  Kind kind = Kind::DEPTHWISE;
  DType type = DType::FLOAT16;
  ContractImage image;  // channels and all_channels are those of a pixel
  int64_t pads_end[2] = {0, 0};
  bool counts_pads = false;  // an average's
  int inputs = 2;
  Epilogue epilogue;

  bool has_weights() const { return kind == Kind::DEPTHWISE; }
};

// How the work lies on threads; its text is the tactic's variant.
struct WindowTile {
  int pixels = 1;     // neighbouring results of a thread along a row
  int rows = 1;       // rows of them: what their windows share is read once
  int chunk = 1;      // channels of it: 1, 2, 4 or 8, at most 16 bytes; a divisor of all channels
  int threads = 128;  // of a block
  // Results of a block that shares its part of the image: multiples of pixels, rows and chunk. 0: none is shared.
  int across = 0, down = 0, channels = 0;

  bool shares() const { return across > 0; }
  // The work of a block that shares, in pieces for a thread.
  int items() const { return across / pixels * (down / rows) * (channels / chunk); }
  std::string to_string() const;
  static WindowTile parse(const std::string& text);  // ENGINE_RANGE
  bool operator==(const WindowTile&) const = default;
};

// The rows of an image that the windows of one thread walk: `count` of them, `step` apart.
struct WindowRows {
  int64_t step = 1, count = 1;
};
WindowRows window_rows(const WindowSpec& spec, const WindowTile& tile);

// The part of an image that a block shares, with the pads around it, and what lies behind it.
struct SharedWindow {
  int64_t height = 0, width = 0;  // pixels
  int64_t pitch = 0;              // bytes from row to row, such that few threads of a warp read the same bank
  int64_t pixels_bytes = 0, weights_bytes = 0;
};
SharedWindow shared_window(const WindowSpec& spec, const WindowTile& tile);

// Pixels of a row that the windows of a thread read; up to so many are held in registers.
int64_t window_reach(const WindowSpec& spec, const WindowTile& tile);
constexpr int64_t kMostHeldPixels = 24;

// Why the tile is not one for the spec; empty when it is.
std::string why_not_tile(const WindowSpec& spec, const WindowTile& tile);

// The weights of a depthwise convolution lie as [places][channels]. Numbers behind the addresses: images, height,
// width, out_height, out_width; then x1, x2 of each operand of the epilogue.
ContractText emit_window(const WindowSpec& spec, const WindowTile& tile);

}  // namespace deepjit

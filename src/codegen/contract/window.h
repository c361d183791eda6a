// Depthwise convolutions and pools as CUDA text: each thread takes a chunk of channels of a few neighbouring results
// and walks their windows, over an image with channels last. Reads come from memory and caches directly.
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
  int pixels = 1;     // neighbouring results of a thread
  int chunk = 1;      // channels of it: 1, 2, 4 or 8, at most 16 bytes; a divisor of all channels
  int threads = 128;  // of a block

  std::string to_string() const;
  static WindowTile parse(const std::string& text);  // ENGINE_RANGE
};

// The weights of a depthwise convolution lie as [places][channels]. Numbers behind the addresses: images, height,
// width, out_height, out_width; then x1, x2 of each operand of the epilogue.
ContractText emit_window(const WindowSpec& spec, const WindowTile& tile);

}  // namespace deepjit

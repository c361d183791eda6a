// The parts of the text of a window kernel: frame and walk (emit_window.cpp), what a block shares
// (emit_window_shared.cpp), results (emit_window_results.cpp).
//
// Names in the text: image, line, first the first result of a thread, c its first channel; top, left where its first
// window starts; dy a row of the windows, tap the same relative to one row of results; x pixels, `sums` results.
#pragma once

#include <string>

#include "codegen/contract/window.h"

namespace deepjit {

class WindowEmitter {
 public:
  WindowEmitter(const WindowSpec& spec, const WindowTile& tile);
  ContractText run(const std::string& name);

 private:
  using Kind = WindowSpec::Kind;

  void emit_arguments(const std::string& name);
  void emit_place();
  void emit_sums();

  // Pixels and weights: pairs of 16 bits stay together until they are converted, half by half.
  std::string vector() { return out_.vector_type(spec_.type, tile_.chunk); }
  bool in_pairs() const { return spec_.type != DType::FLOAT32 && tile_.chunk > 1; }
  std::string packed(int count);
  std::string packed() { return packed(tile_.chunk); }
  void convert(const std::string& to, const std::string& from, int count);
  std::string lowest(bool pair) const;

  // The walk.
  void emit_windows();
  void emit_source();
  void emit_pixel(const std::string& to);
  void emit_held();
  void emit_streamed();
  void emit_weights();
  void emit_uses(const std::string& pixel);

  // What a block shares.
  void open_each(const std::string& i, int64_t count);
  void emit_shared_place();
  void emit_shared_pixels();
  void emit_shared_weights();
  std::string chunk_guard() const;
  int64_t size() const { return static_cast<int64_t>(dtype_size(spec_.type)); }  // of an element
  int chunk_of_copies() const { return static_cast<int>(16 / size()); }

  // Results.
  std::string count(const char* start, const char* size, size_t axis) const;
  void emit_operand(size_t i);
  bool moves_along_rows(size_t i) const { return spec_.epilogue.operands[i].rows.find('M') != std::string::npos; }
  void emit_still_operands();
  void emit_results();
  void emit_result();

  const WindowSpec& spec_;
  WindowTile tile_;
  CudaWriter out_;
  std::string element_;
  SharedWindow shared_;
};

}  // namespace deepjit

// The passes over a row that its threads hold in registers, in arrays of one vector a chunk.
//
// Chunk `chunk` of a thread begins at column (chunk * threads + lane) * width; it lies in the row whole or not at all.
// All loads of a pass stand before its work, so that they are under way together; what is the same for all rows is
// loaded before the first one.
#include <algorithm>

#include "codegen/cuda/emit_cuda_body.h"

namespace deepjit {

void CudaBody::emit_resident_pass(int stage) {
  const std::vector<int32_t> order = plan_.needed_in(stage, true);
  declare_resident(stage, order);
  open_chunks("end");
  declare_results(stage);
  out_.open_lanes(width_);
  emit_lane(stage, order, true);
  out_.close();
  store_results(stage);
  close_chunks();
}

void CudaBody::emit_held_columns(const std::string& condition) {
  std::vector<int32_t> loads;
  for (size_t i = 0; i < kernel_.insts.size(); ++i) {
    if (is_held(static_cast<int32_t>(i))) loads.push_back(static_cast<int32_t>(i));
  }
  if (loads.empty()) return;
  for (int32_t index : loads) declare_elements(index);
  out_.open("if ({})", condition);
  load_resident(loads, "columns");
  out_.close();
}

// Is it loaded before the first row?
bool CudaBody::is_held(int32_t index) const {
  return plan_.is_live(index) && is_vector_load(index) && !access(inst(index).access).moves_between_rows();
}

// What the pass is the first to need: elements x0, x1 ..., and the values r0, r1 ... that it keeps.
void CudaBody::declare_resident(int stage, const std::vector<int32_t>& order) {
  std::vector<int32_t> loads;
  for (int32_t index : order) {
    if (plan_.stage_of(index) < stage || is_held(index)) continue;
    if (is_vector_load(index)) {
      loads.push_back(index);
      declare_elements(index);
    } else if (plan_.is_kept(index)) {
      out_.line("{} r{}[{}];", out_.vector_type(inst(index).type, width_), index, mapping_.chunks);
    }
  }
  if (!loads.empty()) load_resident(loads, "end");
}

void CudaBody::declare_elements(int32_t index) {
  out_.line("{} x{}[{}];", out_.vector_type(access(inst(index).access).dtype, width_), index, mapping_.chunks);
}

void CudaBody::load_resident(const std::vector<int32_t>& loads, const char* end) {
  open_chunks(end);
  for (int32_t index : loads) {
    const int32_t from = inst(index).access;
    out_.line("x{0}[chunk] = *(const {1}*)(a{2} + column);", index, CudaWriter::vector_name(access(from).dtype, width_),
              from);
  }
  close_chunks();
}

void CudaBody::open_chunks(const char* end) {
  out_.line("#pragma unroll");
  out_.open("for (int chunk = 0; chunk < {}; ++chunk)", mapping_.chunks);
  out_.line("const int column = (chunk * {} + lane) * {};", mapping_.threads_per_row, width_);
  out_.open("if (column < (int){})", end);
}

void CudaBody::close_chunks() {
  out_.close();
  out_.close();
}

}  // namespace deepjit

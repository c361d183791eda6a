#include "codegen/cuda/emit_cuda_body.h"

#include <algorithm>

#include "codegen/cuda/emit_cuda_scalar.h"

namespace deepjit {

namespace {

constexpr size_t kFew = 8;  // instructions a column

}  // namespace

CudaBody::CudaBody(const KernelIr& kernel, const CudaMapping& mapping, Keeping keeping, CudaWriter& out)
    : kernel_(kernel),
      mapping_(mapping),
      out_(out),
      plan_(kernel, keeping),
      width_(mapping.per_thread),
      known_(kernel.insts.size(), false) {}

bool CudaBody::is_vector_load(int32_t index) const { return in_vectors() && is_plain_load(kernel_, inst(index)); }

bool CudaBody::is_vector(int32_t access_index) const {
  for (size_t i = 0; i < kernel_.insts.size(); ++i) {
    if (kernel_.insts[i].access == access_index && is_vector_load(static_cast<int32_t>(i))) return true;
  }
  for (const Store& s : kernel_.stores) {
    if (s.access == access_index && is_vector_store(s)) return true;
  }
  return false;
}

void CudaBody::emit_flat() {
  emit_scalars(0);
  emit_chunk(0, plan_.needed_in(0, false), false);
}

// Where the warps of a row leave their parts of its reductions.
void CudaBody::declare_parts() {
  if (!mapping_.across && warps_per_row() <= 1) return;
  const int parts = mapping_.across ? mapping_.threads() : warps_per_row() * mapping_.rows_per_block();
  for (int stage = 0; stage < plan_.stages(); ++stage) {
    for (int32_t r : plan_.reductions_of(stage)) {
      out_.line("__shared__ {} part{}[{}];", cuda_register_type(inst(r).type), r, parts);
    }
  }
}

void CudaBody::declare_row_buffers() {
  if (plan_.kept().empty()) return;
  const int rows = mapping_.rows_per_block() * static_cast<int>(plan_.kept().size());
  if (width_ > 1) out_.line("const long long padded = (columns + {}) / {} * {};", width_ - 1, width_, width_);
  if (width_ == 1) out_.line("const long long padded = columns;");
  out_.line("const bool keep = {} >= {} * padded;", out_.call("row_memory_bytes", ""), rows * 4);
  const std::string memory = out_.call("row_memory", "");
  for (const auto& [index, buffer] : plan_.kept()) {
    std::string first = std::to_string(buffer) + " * padded";
    if (mapping_.rows_per_block() > 1) first = fmt::format("(slot * {} + {}) * padded", plan_.kept().size(), buffer);
    // Threads that have a row each lie side by side, so that they use all banks of the memory.
    if (rows_beside()) first = fmt::format("{} * padded + slot", buffer * mapping_.rows_per_block());
    out_.line("float* const kept{} = {} + {};", index, memory, first);
  }
}

void CudaBody::emit_row() {
  std::fill(known_.begin(), known_.end(), false);
  for (int stage = 0; stage < plan_.stages(); ++stage) {
    emit_scalars(stage);
    emit_stage(stage);
  }
  emit_scalars(plan_.stages());
  emit_row_stores();
}

// Row values that are known once the passes before `stage` are done.
void CudaBody::emit_scalars(int stage) {
  for (size_t i = 0; i < kernel_.insts.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    const Opcode op = inst(index).op;
    if (!plan_.is_live(index) || plan_.per_element(index) || is_reduction(op)) continue;
    if (known_[i] || plan_.stage_of(index) > stage) continue;
    known_[i] = true;
    if (op == Opcode::CONST) continue;  // written where they are used
    out_.line("const {} v{} = {};", cuda_register_type(inst(index).type), index, expression(index));
  }
}

void CudaBody::emit_row_stores() {
  bool any = false;
  for (const Store& s : kernel_.stores) any = any || !access(s.access).moves_along_row();
  if (!any) return;
  const char* live = mapping_.rows_per_block() > 1 ? "live" : "";
  const char* first = mapping_.threads_per_row > 1 ? "lane == 0" : "";
  out_.open("if ({}{}{})", first, *first != 0 && *live != 0 ? " && " : "", live);
  for (const Store& s : kernel_.stores) {
    if (access(s.access).moves_along_row()) continue;
    out_.line("*a{} = {};", s.access, cuda_text::to_memory(out_, value(s.value), access(s.access).dtype));
  }
  out_.close();
}

void CudaBody::emit_stage(int stage) {
  const std::vector<int32_t> reductions = plan_.reductions_of(stage);
  if (plan_.needed_in(stage, true).empty() && reductions.empty() && plan_.stores_of(stage).empty()) return;
  start_reductions(reductions);
  if (is_resident()) {
    emit_resident_pass(stage);
  } else {
    emit_passes(stage);
  }
  if (reductions.empty()) return;
  fold_lanes(reductions);
  fold_threads(reductions);
}

void CudaBody::start_reductions(const std::vector<int32_t>& reductions) {
  for (int32_t r : reductions) {
    const std::string start = cuda_text::identity(inst(r).op, inst(r).type);
    std::string list = start;
    for (int k = 1; k < width_; ++k) list += ", " + start;
    const std::string type = cuda_register_type(inst(r).type);
    if (in_vectors()) out_.line("{} s{}[{}] = {{{}}};", type, r, width_, list);
    if (!in_vectors()) out_.line("{} v{} = {};", type, r, start);
  }
}

// With row buffers when the launch gave memory for them, else computing again.
void CudaBody::emit_passes(int stage) {
  const std::vector<int32_t> with = plan_.needed_in(stage, true);
  const bool touches = std::any_of(with.begin(), with.end(), [&](int32_t index) { return plan_.is_kept(index); });
  if (!touches) return emit_pass(stage, with, false);
  out_.open("if (keep)");
  emit_pass(stage, with, true);
  out_.otherwise();
  emit_pass(stage, plan_.needed_in(stage, false), false);
  out_.close();
}

void CudaBody::emit_pass(int stage, const std::vector<int32_t>& order, bool keeping) {
  if (order.empty() && plan_.reductions_of(stage).empty() && plan_.stores_of(stage).empty()) return;
  const std::string first = mapping_.threads_per_row == 1 ? "0"
                            : width_ > 1                  ? fmt::format("lane * {}", width_)
                                                          : "lane";
  // What lies far apart is read several columns at a time.
  out_.line("#pragma unroll {}", mapping_.across && order.size() <= kFew ? 8 : 1);
  out_.open("for (long long column = {}; column < end; column += {})", first, width_ * mapping_.threads_per_row);
  emit_chunk(stage, order, keeping);
  out_.close();
}

// ---- the columns that a thread takes at once ------------------------------------------------------------

// In vectors where all of them are whole, else one column after another: that is short text, and rare.
void CudaBody::emit_chunk(int stage, const std::vector<int32_t>& order, bool keeping) {
  if (width_ == 1) return emit_lane(stage, order, keeping);
  const char* end = mapping_.threads_per_row > 0 ? "end" : "columns";
  out_.open("if (column + {} <= {}{})", width_, end, reaches_vectors(stage, order, keeping) ? " && dense" : "");
  emit_whole_chunk(stage, order, keeping);
  out_.otherwise();
  out_.line("const int left = column + {0} <= {1} ? {0} : (int)({1} - column);", width_, end);
  out_.line("#pragma unroll 1");
  out_.open("for (int k = 0; k < left; ++k)");
  one_by_one_ = true;
  emit_lane(stage, order, keeping);
  one_by_one_ = false;
  out_.close();
  out_.close();
}

bool CudaBody::reaches_vectors(int stage, const std::vector<int32_t>& order, bool keeping) const {
  const std::vector<Store> stores = plan_.stores_of(stage);
  return std::any_of(order.begin(), order.end(),
                     [&](int32_t i) { return is_vector_load(i) && !(keeping && plan_.read_back(i, stage)); }) ||
         std::any_of(stores.begin(), stores.end(), [&](const Store& s) { return is_vector_store(s); });
}

// Elements and kept values as vectors x0, x1 ..., results as y0, y1 ...
void CudaBody::emit_whole_chunk(int stage, const std::vector<int32_t>& order, bool keeping) {
  const auto kept_now = [&](int32_t index) {
    return keeping && plan_.is_kept(index) && !plan_.read_back(index, stage);
  };
  const std::string floats = keeping ? out_.vector_type(DType::FLOAT32, width_) : "";
  for (int32_t index : order) {
    if (keeping && plan_.read_back(index, stage)) {
      out_.line("const {0} x{1} = *(const {0}*)(kept{1} + column);", floats, index);
    } else if (is_vector_load(index)) {
      const int32_t from = inst(index).access;
      const std::string type = out_.vector_type(access(from).dtype, width_);
      out_.line("const {0} x{1} = *(const {0}*)(a{2} + column);", type, index, from);
    }
    if (kept_now(index)) out_.line("{} y_kept{};", floats, index);
  }
  declare_results(stage);
  out_.open_lanes(width_);
  emit_lane(stage, order, keeping);
  out_.close();
  for (int32_t index : order) {
    if (kept_now(index)) out_.line("*({0}*)(kept{1} + column) = y_kept{1};", floats, index);
  }
  store_results(stage);
}

// What is stored by whole vectors: declared before the lanes, stored behind them.
void CudaBody::declare_results(int stage) {
  for (const Store& s : plan_.stores_of(stage)) {
    if (is_vector_store(s)) out_.line("{} y{};", out_.vector_type(access(s.access).dtype, width_), s.access);
  }
}

void CudaBody::store_results(int stage) {
  for (const Store& s : plan_.stores_of(stage)) {
    if (!is_vector_store(s)) continue;
    const std::string type = CudaWriter::vector_name(access(s.access).dtype, width_);
    out_.line("*({0}*)(a{1} + column) = y{1};", type, s.access);
  }
}

// One column; in vectors, lane k of them.
void CudaBody::emit_lane(int stage, const std::vector<int32_t>& order, bool keeping) {
  for (int32_t index : order) {
    const bool read_back = keeping && plan_.read_back(index, stage);
    const std::string from = read_back ? kept_element(index) : expression(index);
    out_.line("const {} v{} = {};", cuda_register_type(inst(index).type), index, from);
    if (!keeping || read_back || !plan_.is_kept(index)) continue;
    out_.line("{} = v{};", has_lanes() && !is_resident() ? fmt::format("y_kept{}.at[k]", index) : kept_element(index),
              index);
  }
  for (const Store& s : plan_.stores_of(stage)) {
    const std::string stored = cuda_text::to_memory(out_, value(s.value), access(s.access).dtype);
    const bool in_lane = has_lanes() && is_vector_store(s);
    out_.line("{} = {};", in_lane ? fmt::format("y{}.at[k]", s.access) : element(s.access), stored);
  }
  for (int32_t r : plan_.reductions_of(stage)) {
    const std::string sum = in_vectors() ? fmt::format("s{}[{}]", r, one_by_one_ ? "0" : "k") : fmt::format("v{}", r);
    out_.line("{} = {};", sum, combined(r, sum, value(inst(r).args[0])));
  }
}

// ---- reductions -----------------------------------------------------------------------------------------

// The lanes of a thread, by halves.
void CudaBody::fold_lanes(const std::vector<int32_t>& reductions) {
  if (!in_vectors()) return;
  for (int32_t r : reductions) {
    for (int half = width_ / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) {
        const std::string into = fmt::format("s{}[{}]", r, k);
        out_.line("{} = {};", into, combined(r, into, fmt::format("s{}[{}]", r, k + half)));
      }
    }
    out_.line("{} v{} = s{}[0];", cuda_register_type(inst(r).type), r, r);
  }
}

// The threads of a row: those of a warp by halves, then the warps one after another. All get the result.
void CudaBody::fold_threads(const std::vector<int32_t>& reductions) {
  if (mapping_.across) return fold_across(reductions);
  const int lanes = std::min(mapping_.threads_per_row, 32);
  if (lanes == 1) return;
  out_.line("#pragma unroll");
  out_.open("for (int step = {}; step > 0; step /= 2)", lanes / 2);
  for (int32_t r : reductions) {
    const std::string own = fmt::format("v{}", r);
    out_.line("{} = {};", own, combined(r, own, fmt::format("__shfl_xor_sync(0xffffffffu, {}, step)", own)));
  }
  out_.close();
  const int warps = warps_per_row();
  if (warps <= 1) return;
  out_.open("if (lane % 32 == 0)");
  const std::string own_row = mapping_.rows_per_block() > 1 ? fmt::format("slot * {} + ", warps) : "";
  for (int32_t r : reductions) out_.line("part{0}[{1}lane / 32] = v{0};", r, own_row);
  out_.close();
  out_.line("__syncthreads();");
  for (int32_t r : reductions) out_.line("v{0} = part{0}[{1}0];", r, own_row);
  out_.line("#pragma unroll");
  out_.open("for (int warp = 1; warp < {}; ++warp)", warps);
  for (int32_t r : reductions) {
    const std::string own = fmt::format("v{}", r);
    out_.line("{} = {};", own, combined(r, own, fmt::format("part{}[{}warp]", r, own_row)));
  }
  out_.close();
}

// The threads of a row, one after another.
void CudaBody::fold_across(const std::vector<int32_t>& reductions) {
  for (int32_t r : reductions) out_.line("part{0}[threadIdx.x] = v{0};", r);
  out_.line("__syncthreads();");
  for (int32_t r : reductions) out_.line("v{0} = part{0}[slot];", r);
  out_.line("#pragma unroll");
  out_.open("for (int other = 1; other < {}; ++other)", mapping_.threads_per_row);
  for (int32_t r : reductions) {
    const std::string own = fmt::format("v{}", r);
    out_.line("{} = {};", own,
              combined(r, own, fmt::format("part{}[other * {} + slot]", r, mapping_.rows_per_block())));
  }
  out_.close();
}

// ---- expressions ----------------------------------------------------------------------------------------

std::string CudaBody::value(int32_t index) const {
  if (inst(index).op == Opcode::CONST) return cuda_text::literal(inst(index).number, inst(index).type);
  return fmt::format("v{}", index);
}

std::string CudaBody::combined(int32_t reduction, const std::string& a, const std::string& b) {
  return cuda_text::combine(out_, inst(reduction).op, inst(reduction).type, a, b);
}

std::string CudaBody::kept_element(int32_t index) const {
  if (is_resident()) return fmt::format("r{}[chunk].at[k]", index);
  if (has_lanes()) return fmt::format("x{}.at[k]", index);
  if (one_by_one_) return fmt::format("kept{}[column + k]", index);
  if (!rows_beside()) return fmt::format("kept{}[column]", index);
  return fmt::format("kept{}[column * {}]", index, mapping_.rows_per_block());
}

// One element in memory: of the row's start, or of this column; `where` is added to its place.
std::string CudaBody::element(int32_t access_index, const std::string& where) const {
  const Access& a = access(access_index);
  std::string place = in_vectors() ? "column + k" : "column";
  if (!a.moves_along_row()) {
    place = where;
  } else if (!is_dense(access_index)) {
    place = fmt::format("{} * {}", in_vectors() ? "(column + k)" : "column",
                        row_strides_[static_cast<size_t>(access_index)]);
  }
  if (a.moves_along_row() && !where.empty()) place += " + " + where;
  return place.empty() ? fmt::format("*a{}", access_index) : fmt::format("a{}[{}]", access_index, place);
}

// An index that lies outside is told and taken for 0: what it would read may be nobody's memory.
std::string CudaBody::checked(int32_t index, const std::string& loaded) {
  const Inst& i = inst(index);
  for (size_t c = 0; c < kernel_.checks.size(); ++c) {
    if (kernel_.checks[c].operand != access(i.access).operand) continue;
    return out_.call(i.type == DType::INT32 ? "checked_i32" : "checked_i64",
                     loaded + ", " + limits_[c] + ", fault, fault_number");
  }
  return loaded;
}

std::string CudaBody::load(int32_t index) {
  const Inst& i = inst(index);
  const DType memory = access(i.access).dtype;
  const bool varies = plan_.per_element(index);
  if (varies && has_lanes() && is_vector_load(index)) {
    return checked(
        index, cuda_text::from_memory(out_, fmt::format("x{}{}.at[k]", index, is_resident() ? "[chunk]" : ""), memory));
  }
  const std::string read =
      checked(index, cuda_text::from_memory(out_, element(i.access, i.args[0] < 0 ? "" : value(i.args[0])), memory));
  if (i.args[1] < 0) return read;
  return fmt::format("{} ? {} : {}", value(i.args[1]), read, cuda_text::literal(0, i.type));
}

std::string CudaBody::expression(int32_t index) {
  const Inst& i = inst(index);
  if (i.op == Opcode::ROW_SIZE) return fmt::format("({})columns", cuda_register_type(i.type));
  if (i.op == Opcode::SIZE) return sizes_[static_cast<size_t>(i.access)];
  if (i.op == Opcode::INDEX) {
    const bool along_row = static_cast<size_t>(i.access) + 1 == kernel_.rank();
    return !along_row ? fmt::format("i{}", i.access) : in_vectors() ? "column + k" : "column";
  }
  if (i.op == Opcode::LOAD) return load(index);
  std::vector<std::string> args;
  for (int32_t arg : i.args) {
    if (arg >= 0) args.push_back(value(arg));
  }
  return cuda_text::operation(out_, i, inst(i.args[0]).type, args);
}

}  // namespace deepjit

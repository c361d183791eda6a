#include "codegen/emit_cuda.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/sha256.h"
#include "codegen/emit_cuda_body.h"
#include "codegen/ir_builder.h"

namespace deepjit {

namespace {

constexpr int kVectorBytes = 16;  // the widest load
constexpr int kMostChunks = 8;    // that a thread holds
constexpr int kMostThreads = 1024;
constexpr size_t kHeavy = 100;  // instructions an element

// The kernel around its body: arguments, the loop over the work, where each operand's row starts.
class FrameEmitter {
 public:
  FrameEmitter(const KernelIr& kernel, const CudaMapping& mapping, CudaText& text)
      : kernel_(kernel), mapping_(mapping), text_(text), body_(kernel, mapping, keeping_of(mapping), out_) {
    if (mapping.chunks > 0 && !always_fits()) general_.emplace(kernel, general_mapping(), Keeping::NOWHERE, out_);
  }

  void run() {
    collect_params();
    out_.line("extern \"C\" __global__ void __launch_bounds__({}) {}(", mapping_.threads(), text_.name);
    emit_arguments();
    emit_dense();
    if (mapping_.threads_per_row > 0) {
      emit_rows();
    } else {
      emit_chunks();
    }
    out_.close();
    text_.source = out_.finish();
    if (mapping_.chunks == 0) text_.row_buffers = static_cast<int>(body_.plan().kept().size());
  }

 private:
  static Keeping keeping_of(const CudaMapping& mapping) {
    if (mapping.threads_per_row == 0) return Keeping::NOWHERE;
    return mapping.chunks > 0 ? Keeping::IN_REGISTERS : Keeping::IN_MEMORY;
  }

  bool always_fits() const {
    const Quantity& columns = kernel_.extents.back();
    return mapping_.per_thread == 1 && columns.is_const() && columns.factor <= mapping_.resident_columns();
  }

  // For rows that a resident mapping does not take. Of known length, they are rare: not aligned.
  CudaMapping general_mapping() const {
    return {kernel_.extents.back().is_const() ? 1 : mapping_.per_thread, mapping_.threads_per_row};
  }

  std::string quantity(const Quantity& q) {
    if (q.is_const()) return std::to_string(q.factor) + "LL";
    for (size_t i = 0; i < text_.params.size(); ++i) {
      if (text_.params[i] == q) return fmt::format("p{}", i);
    }
    text_.params.push_back(q);
    return fmt::format("p{}", text_.params.size() - 1);
  }

  // Outer extents and all strides; rows and columns are arguments anyhow.
  void collect_params() {
    for (size_t i = 1; i + 1 < kernel_.rank(); ++i) quantity(kernel_.extents[i]);
    for (const Access& a : kernel_.accesses) {
      for (const Quantity& stride : a.strides) quantity(stride);
    }
    std::vector<std::string> row_strides;
    std::vector<std::string> sizes;
    for (const Access& a : kernel_.accesses) {
      for (const Quantity& part : a.offset) quantity(part);
      row_strides.push_back(quantity(a.strides.back()));
    }
    for (const Quantity& size : kernel_.sizes) sizes.push_back(quantity(size));
    if (general_) general_->set_quantities(row_strides, sizes);
    body_.set_quantities(std::move(row_strides), std::move(sizes));
  }

  int32_t operands() const {
    int32_t count = kernel_.inputs;
    for (const Access& a : kernel_.accesses) count = std::max(count, a.operand + 1);
    return count;
  }

  std::string operand(int32_t index) const {
    return index < kernel_.inputs ? fmt::format("in{}", index) : fmt::format("out{}", index - kernel_.inputs);
  }

  void emit_arguments() {
    std::map<int32_t, DType> types;
    for (const Access& a : kernel_.accesses) types[a.operand] = a.dtype;
    for (int32_t i = 0; i < operands(); ++i) {
      const std::string type = types.count(i) != 0 ? cuda_memory_type(types.at(i)) : "void";
      out_.line("    {}{}* {},", i < kernel_.inputs ? "const " : "", type, operand(i));
    }
    for (size_t i = 0; i < text_.params.size(); ++i) {
      out_.line("    long long p{},  // {}", i, words(text_.params[i]));
    }
    out_.open("    long long rows, long long columns)");
  }

  // A quantity in words of the operands: "2 * in0.d1 * out0.d2".
  std::string words(const Quantity& q) const {
    std::string text = q.factor != 1 ? std::to_string(q.factor) : "";
    for (const Quantity::Factor& f : q.dims) {
      text += fmt::format("{}{}.d{}", text.empty() ? "" : " * ", operand(f.operand), f.axis);
    }
    return text;
  }

  // Whether all that is walked along the row can be read and written by whole vectors.
  void emit_dense() {
    if (mapping_.per_thread == 1) return;
    bool any = false;
    std::vector<std::string> terms;
    auto add = [&](const std::string& bytes, int of) {
      const std::string term = out_.call("is_multiple", fmt::format("{}, {}", bytes, of));
      if (std::count(terms.begin(), terms.end(), term) == 0) terms.push_back(term);
    };
    for (size_t k = 0; k < kernel_.accesses.size(); ++k) {
      const Access& a = kernel_.accesses[k];
      if (!body_.is_vector(static_cast<int32_t>(k))) continue;
      any = true;
      const auto size = static_cast<int>(dtype_size(a.dtype));
      const int bytes = std::min(kVectorBytes, size * mapping_.per_thread);
      add("(long long)" + operand(a.operand), bytes);
      std::vector<Quantity> steps(a.strides.begin(), a.strides.end() - 1);
      steps.insert(steps.end(), a.offset.begin(), a.offset.end());
      for (const Quantity& step : steps) {
        if (step.factor % bytes * size % bytes == 0) continue;
        add(quantity(step) + " * " + std::to_string(size), bytes);
      }
    }
    std::string all;
    for (const std::string& term : terms) all += (all.empty() ? "" : " && ") + term;
    has_dense_ = any;
    if (any) out_.line("const bool dense = {};", all);
  }

  void emit_chunks() {
    const int width = mapping_.per_thread;
    const bool one_row = kernel_.rank() == 1;
    if (width > 1) out_.line("const long long chunks = (columns + {}) / {};", width - 1, width);
    if (width == 1) out_.line("const long long chunks = columns;");
    out_.line("const long long step = (long long)gridDim.x * {};", mapping_.threads());
    out_.open("for (long long chunk = (long long)blockIdx.x * {} + threadIdx.x; chunk < {}chunks; chunk += step)",
              mapping_.threads(), one_row ? "" : "rows * ");
    if (!one_row) out_.line("const long long row = {};", out_.call("quotient", "chunk, chunks"));
    const std::string first = one_row ? "chunk" : "(chunk - row * chunks)";
    out_.line("const long long column = {}{};", first, width > 1 ? fmt::format(" * {}", width) : "");
    emit_pointers();
    body_.emit_flat();
    out_.close();
  }

  void emit_rows() {
    const int rows = mapping_.rows_per_block();
    if (mapping_.threads_per_row == 1) {
      out_.line("const int slot = threadIdx.x;  // which row of the block");
    } else if (rows > 1) {
      out_.line("const int lane = threadIdx.x % {};", mapping_.threads_per_row);
      out_.line("const int slot = threadIdx.x / {};  // which row of the block", mapping_.threads_per_row);
    } else {
      out_.line("const int lane = threadIdx.x;");
    }
    body_.declare_parts();
    if (mapping_.chunks == 0) body_.declare_row_buffers();
    if (general_) emit_fits();
    const std::string each = rows > 1 ? fmt::format(" * {}", rows) : "";
    out_.open("for (long long first = (long long)blockIdx.x{0}; first < rows; first += (long long)gridDim.x{0})", each);
    if (rows > 1) {
      // All threads of the block go through the row, for the sake of its shuffles and barriers.
      out_.line("const bool live = first + slot < rows;");
      out_.line("const long long row = live ? first + slot : rows - 1;");
      out_.line("const long long end = live ? columns : 0;");
    } else {
      out_.line("const long long row = first;");
      out_.line("const long long end = columns;");
    }
    emit_pointers();
    if (general_) out_.open("if (fits)");
    body_.emit_row();
    if (general_) {
      out_.otherwise();
      general_->emit_row();
      out_.close();
    }
    if (mapping_.threads_per_row > 32) out_.line("__syncthreads();");
    out_.close();
  }

  // Whether the threads hold a row: aligned, of whole chunks, and not too long.
  void emit_fits() {
    const int width = mapping_.per_thread;
    std::string all = fmt::format("columns <= {}", mapping_.resident_columns());
    if (width > 1) all += " && " + out_.call("is_multiple", fmt::format("columns, {}", width));
    if (has_dense_) all += " && dense";
    out_.line("const bool fits = {};", all);
  }

  // The row's place along the outer axes, and each operand's start there.
  void emit_pointers() {
    const size_t outer = kernel_.rank() - 1;
    std::string rest = "row";
    for (size_t i = outer; i-- > 1;) {
      const std::string extent = quantity(kernel_.extents[i]);
      out_.line("const long long q{} = {};", i, out_.call("quotient", rest + ", " + extent));
      out_.line("const long long i{0} = {1} - q{0} * {2};", i, rest, extent);
      rest = fmt::format("q{}", i);
    }
    if (outer > 0) out_.line("const long long i0 = {};", rest);
    for (size_t k = 0; k < kernel_.accesses.size(); ++k) {
      const Access& a = kernel_.accesses[k];
      std::string start = operand(a.operand);
      for (const Quantity& part : a.offset) start += " + " + quantity(part);
      for (size_t i = 0; i < outer; ++i) {
        if (!a.moves(i)) continue;
        const std::string stride = quantity(a.strides[i]);
        start += stride == "1LL" ? fmt::format(" + i{}", i) : fmt::format(" + i{} * {}", i, stride);
      }
      const bool input = a.operand < kernel_.inputs;
      out_.line("{}{}* const a{} = {};", input ? "const " : "", cuda_memory_type(a.dtype), k, start);
    }
  }

  const KernelIr& kernel_;
  const CudaMapping& mapping_;
  CudaText& text_;
  CudaWriter out_;
  CudaBody body_;
  std::optional<CudaBody> general_;
  bool has_dense_ = false;
};

// One chunk a thread, then ever fewer threads with more chunks. A kernel of much work an element is spread over all
// threads that there are: its code is long, and its latency is what counts.
std::vector<CudaMapping> resident_mappings(const KernelIr& kernel, int width, int64_t columns) {
  const bool heavy = kernel.insts.size() > kHeavy;
  std::vector<CudaMapping> out;
  for (int w = heavy ? 1 : width; w <= width; w *= 2) {
    int threads = 2;
    while (threads < kMostThreads && int64_t{threads} * w < columns) threads *= 2;
    for (int tries = heavy ? 1 : 4; tries > 0 && threads >= 2; --tries, threads /= 2) {
      const int64_t chunks = std::max<int64_t>(1, (columns + int64_t{w} * threads - 1) / (int64_t{w} * threads));
      if (chunks <= kMostChunks) out.push_back({w, threads, static_cast<int>(chunks)});
    }
  }
  return out;
}

// The most columns that a thread takes at once: 16 bytes of the smallest type that is walked along the row.
int widest(const KernelIr& kernel) {
  int bytes = kVectorBytes;  // none walked densely: one column at a time
  for (const Access& a : kernel.accesses) {
    if (a.strides.back() == Quantity{1, {}}) bytes = std::min(bytes, static_cast<int>(dtype_size(a.dtype)));
  }
  return std::min(8, kVectorBytes / bytes);
}

}  // namespace

std::string CudaMapping::to_string() const {
  if (threads_per_row == 0) return fmt::format("flat{}", per_thread);
  return fmt::format("row{}x{}", threads_per_row, per_thread) + (chunks > 0 ? fmt::format("x{}", chunks) : "");
}

CudaMapping CudaMapping::parse(const std::string& text) {
  for (int threads : {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
    for (int width : {1, 2, 4, 8}) {
      for (int chunks = 0; chunks <= kMostChunks; ++chunks) {
        const CudaMapping mapping{width, threads, chunks};
        if (mapping.to_string() == text) return mapping;
      }
    }
  }
  throw Error(Code::INTERNAL, "codegen: no mapping is called " + text);
}

CudaText emit_cuda_text(const KernelIr& kernel, const CudaMapping& mapping) {
  check_internal(shares_rows(kernel) == (mapping.threads_per_row > 0), "codegen: a mapping of the other kind");
  CudaText text;
  text.name = "region_" + sha256_hex(kernel.to_string() + mapping.to_string()).substr(0, 12);
  FrameEmitter(kernel, mapping, text).run();
  return text;
}

bool shares_rows(const KernelIr& kernel) {
  const bool per_row = std::any_of(kernel.stores.begin(), kernel.stores.end(), [&](const Store& s) {
    return !kernel.accesses[static_cast<size_t>(s.access)].moves_along_row();
  });
  return kernel.reduces || per_row;
}

std::vector<CudaMapping> cuda_mappings(const KernelIr& kernel, int64_t columns) {
  int width = widest(kernel);
  // Rows that are not whole vectors are not aligned either, unless there is but one.
  while (kernel.rank() > 1 && width > 1 && columns % width != 0) width /= 2;
  if (!shares_rows(kernel)) {
    if (width == 1) return {{1, 0}};
    return {{width, 0}, {1, 0}};
  }
  if (kernel.lanes) return {{1, 1}, {1, 32}};  // rows lie side by side: a thread each, unless there are few
  std::vector<CudaMapping> out = resident_mappings(kernel, width, columns);
  if (!out.empty()) return out;
  return {{width, 512}, {width, 128}, {width, 32}};
}

Refusal why_not_emit_cuda(const KernelIr& kernel) {
  if (!kernel.checks.empty()) {
    return {Why::DEVICE_LIMIT, "a kernel on a GPU cannot tell of indices that lie outside",
            "limit the indices by Clip, where that is right"};
  }
  for (const Inst& inst : kernel.insts) {
    const bool rounds = inst.op == Opcode::SQRT || (inst.op >= Opcode::FLOOR && inst.op <= Opcode::ROUND);
    const bool divides = inst.op == Opcode::DIV || inst.op == Opcode::RECIPROCAL;
    const bool counts = is_reduction(inst.op) && inst.type == DType::BOOL;
    if (((is_transcendental(inst.op) || rounds || divides) && !is_float(inst.type)) || counts) {
      return {Why::TYPE_NOT_GENERATED,
              std::string(opcode_name(inst.op)) + " of " + std::string(dtype_name(inst.type)) + " is not generated"};
    }
  }
  return {};
}

std::string cuda_emitter_version() { return "3"; }

}  // namespace deepjit

#include "codegen/cuda/emit_cuda.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/sha256.h"
#include "codegen/cuda/emit_cuda_body.h"
#include "codegen/ir_builder.h"

namespace deepjit {

namespace {

struct Argument {
  std::string type, name, meaning;
};

// The kernel around its body: arguments, the loop over the work, where each operand's row starts.
class FrameEmitter {
 public:
  FrameEmitter(const KernelIr& kernel, const CudaMapping& mapping, CudaWriter& out, CudaText& text)
      : kernel_(kernel), mapping_(mapping), text_(text), out_(out), body_(kernel, mapping, keeping_of(mapping), out) {
    if (mapping.chunks > 0 && !always_fits()) general_.emplace(kernel, general_mapping(), Keeping::NOWHERE, out_);
    collect_params();
  }

  void emit_kernel() {
    out_.line("extern \"C\" __global__ void __launch_bounds__({}) {}(", mapping_.threads(), text_.name);
    emit_arguments();
    out_.line("const unsigned int block = blockIdx.x;");
    out_.line("const unsigned int blocks = gridDim.x;");
    emit_work();
  }

  // A function that does the share of one of `blocks` blocks.
  void emit_part() {
    out_.line("static __device__ __forceinline__ void {}(", text_.name);
    out_.line("    unsigned int block, unsigned int blocks,");
    emit_arguments();
    emit_work();
  }

  std::vector<Argument> arguments() const {
    std::vector<Argument> all;
    std::map<int32_t, DType> types;
    for (const Access& a : kernel_.accesses) types[a.operand] = a.dtype;
    for (int32_t i = 0; i < operands(); ++i) {
      const std::string type = types.count(i) != 0 ? cuda_memory_type(types.at(i)) : "void";
      all.push_back({(i < kernel_.inputs ? "const " : "") + type + "*", operand(i), ""});
    }
    for (size_t i = 0; i < text_.params.size(); ++i) {
      all.push_back({"long long", fmt::format("p{}", i), words(text_.params[i])});
    }
    all.push_back({"long long", "rows", ""});
    all.push_back({"long long", has_known_columns() ? "all_columns" : "columns", ""});
    if (!kernel_.checks.empty()) {
      all.push_back({"int*", "fault", "what to leave there where an index lies outside:"});
      all.push_back({"long long", "fault_number", ""});
    }
    return all;
  }

 private:
  void emit_work() {
    if (has_known_columns()) out_.line("const long long columns = {};  // in every launch", columns().factor);
    emit_dense();
    if (mapping_.threads_per_row > 0) {
      emit_rows();
    } else {
      emit_chunks();
    }
    out_.close();
    if (mapping_.chunks == 0) text_.row_buffers = static_cast<int>(body_.plan().kept().size());
  }

  static Keeping keeping_of(const CudaMapping& mapping) {
    if (mapping.threads_per_row == 0) return Keeping::NOWHERE;
    return mapping.chunks > 0 ? Keeping::IN_REGISTERS : Keeping::IN_MEMORY;
  }

  const Quantity& columns() const { return kernel_.extents.back(); }
  bool has_known_columns() const { return columns().is_const(); }

  bool always_fits() const {
    return mapping_.per_thread == 1 && has_known_columns() && columns().factor <= mapping_.resident_columns();
  }

  // For rows that a resident mapping does not take. Of known length, they are rare: not aligned.
  CudaMapping general_mapping() const {
    return {has_known_columns() ? 1 : mapping_.per_thread, mapping_.threads_per_row};
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
    std::vector<std::string> limits;
    for (const IndexCheck& check : kernel_.checks) limits.push_back(quantity(check.limit));
    if (general_) general_->set_quantities(row_strides, sizes, limits);
    body_.set_quantities(std::move(row_strides), std::move(sizes), std::move(limits));
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
    const std::vector<Argument> all = arguments();
    for (const Argument& a : all) {
      if (&a == &all.back()) return out_.open("    {} {})", a.type, a.name);
      out_.line("    {} {},{}{}", a.type, a.name, a.meaning.empty() ? "" : "  // ", a.meaning);
    }
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
      const int bytes = std::min(kCudaVectorBytes, size * mapping_.per_thread);
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
    emit_fixed_pointers();
    if (width > 1) out_.line("const long long chunks = (columns + {}) / {};", width - 1, width);
    if (width == 1) out_.line("const long long chunks = columns;");
    out_.line("const long long step = (long long)blocks * {};", mapping_.threads());
    out_.line("#pragma unroll 1");
    out_.open("for (long long chunk = (long long)block * {} + threadIdx.x; chunk < {}chunks; chunk += step)",
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
    } else if (mapping_.across) {
      out_.line("const int lane = threadIdx.x / {};", rows);
      out_.line("const int slot = threadIdx.x % {};  // which row of the block", rows);
    } else if (rows > 1) {
      out_.line("const int lane = threadIdx.x % {};", mapping_.threads_per_row);
      out_.line("const int slot = threadIdx.x / {};  // which row of the block", mapping_.threads_per_row);
    } else {
      out_.line("const int lane = threadIdx.x;");
    }
    body_.declare_parts();
    if (mapping_.chunks == 0) body_.declare_row_buffers();
    if (general_) emit_fits();
    emit_fixed_pointers();
    if (mapping_.chunks > 0) body_.emit_held_columns(general_ ? "fits" : "true");
    const std::string each = rows > 1 ? fmt::format(" * {}", rows) : "";
    out_.line("#pragma unroll 1");
    out_.open("for (long long first = (long long)block{0}; first < rows; first += (long long)blocks{0})", each);
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
    if (mapping_.threads_per_row > 32 || mapping_.across) out_.line("__syncthreads();");
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
      if (kernel_.accesses[k].moves_between_rows()) emit_pointer(k);
    }
  }

  // Where each operand that is the same for all rows begins.
  void emit_fixed_pointers() {
    for (size_t k = 0; k < kernel_.accesses.size(); ++k) {
      if (!kernel_.accesses[k].moves_between_rows()) emit_pointer(k);
    }
  }

  void emit_pointer(size_t k) {
    const Access& a = kernel_.accesses[k];
    std::string start = operand(a.operand);
    for (const Quantity& part : a.offset) start += " + " + quantity(part);
    for (size_t i = 0; i + 1 < kernel_.rank(); ++i) {
      if (!a.moves(i)) continue;
      const std::string stride = quantity(a.strides[i]);
      start += stride == "1LL" ? fmt::format(" + i{}", i) : fmt::format(" + i{} * {}", i, stride);
    }
    const bool input = a.operand < kernel_.inputs;
    out_.line("{}{}* const a{} = {};", input ? "const " : "", cuda_memory_type(a.dtype), k, start);
  }

  const KernelIr& kernel_;
  const CudaMapping& mapping_;
  CudaText& text_;
  CudaWriter& out_;
  CudaBody body_;
  std::optional<CudaBody> general_;
  bool has_dense_ = false;
};

CudaText named(const KernelIr& kernel, const CudaMapping& mapping) {
  check_internal(shares_rows(kernel) == (mapping.threads_per_row > 0), "codegen: a mapping of the other kind");
  CudaText text;
  text.name = "region_" + sha256_hex(kernel.to_string() + mapping.to_string()).substr(0, 12);
  return text;
}

// The kernel that gives each part its blocks.
void emit_split(const CudaCombo& combo, int threads, const std::vector<std::vector<Argument>>& arguments,
                CudaWriter& out) {
  out.line("extern \"C\" __global__ void __launch_bounds__({}) {}(", threads, combo.name);
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (const Argument& a : arguments[i]) out.line("    {} of{}_{},", a.type, i, a.name);
  }
  for (size_t i = 0; i + 1 < arguments.size(); ++i) out.line("    long long blocks{},", i);
  out.open("    long long blocks{})", arguments.size() - 1);
  out.line("long long block = blockIdx.x;");
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string list = fmt::format("(unsigned int)block, (unsigned int)blocks{}", i);
    for (const Argument& a : arguments[i]) list += fmt::format(", of{}_{}", i, a.name);
    out.line("if (block < blocks{}) return {}({});", i, combo.parts[i].name, list);
    out.line("block -= blocks{};", i);
  }
  out.close();
}

}  // namespace

CudaText emit_cuda_text(const KernelIr& kernel, const CudaMapping& mapping) {
  CudaText text = named(kernel, mapping);
  CudaWriter out;
  FrameEmitter(kernel, mapping, out, text).emit_kernel();
  text.source = out.finish();
  return text;
}

CudaCombo emit_cuda_combo(const std::vector<CudaPart>& parts) {
  CudaCombo combo;
  CudaWriter out;
  std::set<std::string> written;  // equal kernels are one function
  std::vector<std::vector<Argument>> arguments;
  std::string names;
  for (const CudaPart& part : parts) {
    CudaText& text = combo.parts.emplace_back(named(*part.kernel, part.mapping));
    CudaWriter again;
    const bool first = written.insert(text.name).second;
    FrameEmitter frame(*part.kernel, part.mapping, first ? out : again, text);
    frame.emit_part();
    arguments.push_back(frame.arguments());
    names += text.name;
  }
  combo.name = "combo_" + sha256_hex(names).substr(0, 12);
  emit_split(combo, parts[0].mapping.threads(), arguments, out);
  combo.source = out.finish();
  return combo;
}

Refusal why_not_emit_cuda(const KernelIr& kernel) {
  for (const IndexCheck& check : kernel.checks) {  // looked at where they are loaded
    const bool loaded = std::any_of(kernel.insts.begin(), kernel.insts.end(), [&](const Inst& inst) {
      return inst.op == Opcode::LOAD && kernel.accesses[static_cast<size_t>(inst.access)].operand == check.operand;
    });
    if (!loaded) return {Why::DEVICE_LIMIT, "a kernel on a GPU cannot tell of indices that lie outside"};
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

std::string cuda_emitter_version() { return "7"; }

}  // namespace deepjit

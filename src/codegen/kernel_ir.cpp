#include "codegen/kernel_ir.h"

#include <fmt/format.h>

#include <algorithm>

namespace deepjit {

bool is_reduction(Opcode op) { return op >= Opcode::SUM; }

bool is_transcendental(Opcode op) { return op >= Opcode::EXP && op <= Opcode::SIGMOID; }

int rough_cost(Opcode op) {
  if (op == Opcode::CONST) return 0;
  if (is_transcendental(op)) return 20;
  return op == Opcode::DIV || op == Opcode::SQRT || op == Opcode::RECIPROCAL ? 8 : 1;
}

std::string_view opcode_name(Opcode op) {
  static constexpr std::string_view kNames[] = {
      "const",      "row_size", "size", "index",  "load",    "cast",    "round_to", "neg",    "abs", "sqrt",
      "exp",        "log",      "erf",  "tanh",   "sigmoid", "floor",   "ceil",     "round",  "not", "is_nan",
      "reciprocal", "add",      "sub",  "mul",    "div",     "min",     "max",      "eq",     "lt",  "le",
      "and",        "or",       "xor",  "select", "sum",     "product", "minimum",  "maximum"};
  return kNames[static_cast<size_t>(op)];
}

bool is_plain_load(const KernelIr& kernel, const Inst& inst) {
  const bool plain = inst.op == Opcode::LOAD && inst.args[0] < 0 && inst.args[1] < 0;
  return plain && kernel.accesses[static_cast<size_t>(inst.access)].strides.back() == Quantity{1, {}};
}

void Access::add_offset(const Quantity& q) {
  if (q.factor == 0) return;
  const auto like =
      std::find_if(offset.begin(), offset.end(), [&](const Quantity& part) { return part.dims == q.dims; });
  if (like == offset.end()) return offset.push_back(q);
  like->factor = checked_add(like->factor, q.factor);
  if (like->factor == 0) offset.erase(like);
}

size_t KernelIr::collapse(size_t parallel) {
  if (reduces && extents.size() == parallel) {  // a reduction over dims of size 1
    extents.push_back({1, {}});
    for (Access& a : accesses) a.strides.push_back({0, {}});
  }
  if (extents.empty()) {
    extents.push_back({1, {}});
    for (Access& a : accesses) a.strides.assign(1, {0, {}});
  }
  auto told_apart = [&](size_t axis) {
    return std::any_of(insts.begin(), insts.end(), [axis](const Inst& inst) {
      return inst.op == Opcode::INDEX && static_cast<size_t>(inst.access) == axis;
    });
  };
  for (size_t i = extents.size() - 1; i > 0; --i) {
    if ((reduces && i == parallel) || told_apart(i) || told_apart(i - 1)) continue;
    const bool together = std::all_of(accesses.begin(), accesses.end(),
                                      [&](const Access& a) { return a.strides[i - 1] == a.strides[i] * extents[i]; });
    if (!together) continue;
    const auto at = static_cast<std::ptrdiff_t>(i) - 1;
    extents[i] = extents[i - 1] * extents[i];
    extents.erase(extents.begin() + at);
    for (Access& a : accesses) a.strides.erase(a.strides.begin() + at);
    for (Inst& inst : insts) {
      if (inst.op == Opcode::INDEX && static_cast<size_t>(inst.access) >= i) --inst.access;
    }
    if (i <= parallel) --parallel;
  }
  return parallel;
}

std::vector<bool> KernelIr::per_element() const {
  std::vector<bool> out(insts.size(), false);
  for (size_t i = 0; i < insts.size(); ++i) {
    const Inst& inst = insts[i];
    if (is_reduction(inst.op)) continue;
    if (inst.op == Opcode::INDEX) out[i] = static_cast<size_t>(inst.access) + 1 == rank();
    if (inst.op == Opcode::LOAD) {
      out[i] = accesses[static_cast<size_t>(inst.access)].moves_along_row();
    }
    for (int32_t arg : inst.args) {
      if (arg >= 0 && out[static_cast<size_t>(arg)]) out[i] = true;
    }
  }
  return out;
}

std::vector<int> KernelIr::stages() const {
  std::vector<int> out(insts.size(), 0);
  for (size_t i = 0; i < insts.size(); ++i) {
    for (int32_t arg : insts[i].args) {
      if (arg < 0) continue;
      const int after = is_reduction(insts[static_cast<size_t>(arg)].op) ? 1 : 0;
      out[i] = std::max(out[i], out[static_cast<size_t>(arg)] + after);
    }
  }
  return out;
}

namespace {

std::string text_of(const Quantity& q) {
  std::string text = q.dims.empty() || q.factor != 1 ? std::to_string(q.factor) : "";
  if (q.factor == 0) return text;
  for (const Quantity::Factor& f : q.dims) text += fmt::format("{}d{}.{}", text.empty() ? "" : "*", f.operand, f.axis);
  return text;
}

}  // namespace

std::string KernelIr::to_string() const {
  std::string text = fmt::format("{} inputs, axes", inputs);
  for (const Quantity& e : extents) text += " " + text_of(e);
  text += reduces ? lanes ? " (row reduced, in lanes)\n" : " (row reduced)\n" : "\n";
  const auto access_text = [&](int32_t index) {
    const Access& a = accesses[static_cast<size_t>(index)];
    std::string out = fmt::format("{}{}:{}[", a.operand < inputs ? "in" : "out",
                                  a.operand < inputs ? a.operand : a.operand - inputs, dtype_name(a.dtype));
    for (size_t i = 0; i < a.strides.size(); ++i) out += (i ? ", " : "") + text_of(a.strides[i]);
    for (const Quantity& q : a.offset) out += " + " + text_of(q);
    return out + "]";
  };
  for (size_t i = 0; i < insts.size(); ++i) {
    const Inst& inst = insts[i];
    text += fmt::format("%{} = {} {}", i, opcode_name(inst.op), dtype_name(inst.type));
    if (inst.op == Opcode::CONST) text += fmt::format(" {}", inst.number);
    if (inst.op == Opcode::LOAD) text += " " + access_text(inst.access);
    if (inst.op == Opcode::SIZE) text += " " + text_of(sizes[static_cast<size_t>(inst.access)]);
    if (inst.op == Opcode::INDEX) text += fmt::format(" axis {}", inst.access);
    if (inst.op == Opcode::ROUND_TO) text += fmt::format(" {}", dtype_name(static_cast<DType>(inst.access)));
    const size_t used = inst.args[2] >= 0 ? 3 : inst.args[1] >= 0 ? 2 : inst.args[0] >= 0 ? 1 : 0;
    for (size_t k = 0; k < used; ++k) text += inst.args[k] < 0 ? " -" : fmt::format(" %{}", inst.args[k]);
    text += "\n";
  }
  for (const Store& s : stores) text += fmt::format("store %{} {}\n", s.value, access_text(s.access));
  for (const IndexCheck& c : checks)
    text += fmt::format("in{} indexes {} for op {}\n", c.operand, text_of(c.limit), c.op);
  return text;
}

}  // namespace deepjit

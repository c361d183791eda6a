#include "ir_interpreter.h"

#include <cmath>
#include <cstring>

#include "base/small_types.h"
#include "kernels/launch_words.h"

namespace deepjit {

namespace {

struct Value {
  double number = 0;  // of floats
  int64_t whole = 0;  // of integers and bools
};

bool is_real(DType type) { return type == DType::FLOAT32 || type == DType::FLOAT64; }

Value rounded(double x, DType type) { return {type == DType::FLOAT32 ? static_cast<float>(x) : x, 0}; }
Value wrapped(uint64_t x, DType type) {
  const auto all = static_cast<int64_t>(x);
  return {0, type == DType::INT32 ? static_cast<int32_t>(all) : type == DType::BOOL ? all != 0 : all};
}

Value read(const Tensor& t, int64_t at) {
  switch (t.dtype()) {
    case DType::FLOAT64:
      return {t.as<double>()[at], 0};
    case DType::FLOAT32:
      return {t.as<float>()[at], 0};
    case DType::FLOAT16:
      return {static_cast<float>(t.as<float16>()[at]), 0};
    case DType::BFLOAT16:
      return {static_cast<float>(t.as<bfloat16>()[at]), 0};
    case DType::BOOL:
      return {0, t.as<uint8_t>()[at] != 0};
    case DType::INT8:
      return {0, t.as<int8_t>()[at]};
    case DType::UINT8:
      return {0, t.as<uint8_t>()[at]};
    case DType::INT16:
      return {0, t.as<int16_t>()[at]};
    case DType::UINT16:
      return {0, t.as<uint16_t>()[at]};
    case DType::INT32:
      return {0, t.as<int32_t>()[at]};
    default:
      return {0, t.as<int64_t>()[at]};
  }
}

void write(const Tensor& t, int64_t at, const Value& v) {
  switch (t.dtype()) {
    case DType::FLOAT64:
      t.as<double>()[at] = v.number;
      return;
    case DType::FLOAT32:
      t.as<float>()[at] = static_cast<float>(v.number);
      return;
    case DType::FLOAT16:
      t.as<float16>()[at] = float16(static_cast<float>(v.number));
      return;
    case DType::BFLOAT16:
      t.as<bfloat16>()[at] = bfloat16(static_cast<float>(v.number));
      return;
    default:
      std::memcpy(t.as<char>() + at * static_cast<int64_t>(dtype_size(t.dtype())), &v.whole, dtype_size(t.dtype()));
  }
}

Value cast(const Value& x, DType from, DType to) {
  if (to == DType::BOOL) return {0, is_real(from) ? x.number != 0 : x.whole != 0};
  if (is_real(from) && is_real(to)) return rounded(x.number, to);
  if (is_real(to)) {
    return to == DType::FLOAT32 ? Value{static_cast<float>(x.whole), 0} : Value{static_cast<double>(x.whole), 0};
  }
  if (!is_real(from)) return wrapped(static_cast<uint64_t>(x.whole), to);
  if (std::isnan(x.number)) return {};
  const double end = to == DType::INT32 ? 0x1p31 : 0x1p63;
  const int64_t most = to == DType::INT32 ? INT32_MAX : INT64_MAX;
  if (x.number >= end) return {0, most};
  return {0, x.number <= -end ? -most - 1 : static_cast<int64_t>(x.number)};
}

double lower(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
double upper(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

double real_unary(Opcode op, double x) {
  switch (op) {
    case Opcode::NEG:
      return -x;
    case Opcode::ABS:
      return std::fabs(x);
    case Opcode::SQRT:
      return std::sqrt(x);
    case Opcode::EXP:
      return std::exp(x);
    case Opcode::LOG:
      return std::log(x);
    case Opcode::ERF:
      return std::erf(x);
    case Opcode::TANH:
      return std::tanh(x);
    case Opcode::SIGMOID:
      return 1 / (1 + std::exp(-x));
    case Opcode::FLOOR:
      return std::floor(x);
    case Opcode::CEIL:
      return std::ceil(x);
    case Opcode::ROUND:
      return std::nearbyint(x);
    default:
      return 1 / x;
  }
}

double real_binary(Opcode op, double a, double b) {
  switch (op) {
    case Opcode::ADD:
    case Opcode::SUM:
      return a + b;
    case Opcode::SUB:
      return a - b;
    case Opcode::MUL:
    case Opcode::PRODUCT:
      return a * b;
    case Opcode::DIV:
      return a / b;
    case Opcode::MIN:
    case Opcode::MINIMUM:
      return lower(a, b);
    default:
      return upper(a, b);
  }
}

uint64_t whole_binary(Opcode op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
    case Opcode::ADD:
    case Opcode::SUM:
      return x + y;
    case Opcode::SUB:
      return x - y;
    case Opcode::MUL:
    case Opcode::PRODUCT:
      return x * y;
    case Opcode::MIN:
    case Opcode::MINIMUM:
      return static_cast<uint64_t>(std::min(a, b));
    case Opcode::MAX:
    case Opcode::MAXIMUM:
      return static_cast<uint64_t>(std::max(a, b));
    case Opcode::AND:
      return x & y;
    case Opcode::OR:
      return x | y;
    default:
      return x ^ y;
  }
}

bool compare(Opcode op, const Value& a, const Value& b, bool real) {
  if (op == Opcode::EQ) return real ? a.number == b.number : a.whole == b.whole;
  if (op == Opcode::LT) return real ? a.number < b.number : a.whole < b.whole;
  return real ? a.number <= b.number : a.whole <= b.whole;
}

Value apply(const Inst& inst, DType from, const Value* a) {
  switch (inst.op) {
    case Opcode::CAST:
      return cast(a[0], from, inst.type);
    case Opcode::ROUND_TO: {
      const auto x = static_cast<float>(a[0].number);
      if (static_cast<DType>(inst.access) == DType::FLOAT16) return {static_cast<float>(float16(x)), 0};
      if (static_cast<DType>(inst.access) == DType::BFLOAT16) return {static_cast<float>(bfloat16(x)), 0};
      return {x, 0};
    }
    case Opcode::NOT:
      return {0, a[0].whole == 0};
    case Opcode::IS_NAN:
      return {0, std::isnan(a[0].number)};
    case Opcode::EQ:
    case Opcode::LT:
    case Opcode::LE:
      return {0, compare(inst.op, a[0], a[1], is_real(from))};
    case Opcode::SELECT:
      return a[0].whole != 0 ? a[1] : a[2];
    default:
      break;
  }
  if (inst.args[1] >= 0) {
    return is_real(inst.type) ? rounded(real_binary(inst.op, a[0].number, a[1].number), inst.type)
                              : wrapped(whole_binary(inst.op, a[0].whole, a[1].whole), inst.type);
  }
  if (is_real(inst.type)) return rounded(real_unary(inst.op, a[0].number), inst.type);
  const bool turns = inst.op == Opcode::NEG || a[0].whole < 0;  // NEG, ABS
  return wrapped(turns ? 0 - static_cast<uint64_t>(a[0].whole) : static_cast<uint64_t>(a[0].whole), inst.type);
}

Value reduce(const Inst& inst, const std::vector<Value>& values, int64_t count) {
  const double start = inst.op == Opcode::SUM       ? 0
                       : inst.op == Opcode::PRODUCT ? 1
                       : inst.op == Opcode::MINIMUM ? INFINITY
                                                    : -INFINITY;
  Value all = cast({start, 0}, DType::FLOAT64, inst.type);
  if (is_real(inst.type)) all = {start, 0};
  for (int64_t i = 0; i < count; ++i) {
    const Value& v = values[values.size() == 1 ? 0 : static_cast<size_t>(i)];
    if (is_real(inst.type)) all.number = real_binary(inst.op, all.number, v.number);
    if (!is_real(inst.type)) all = wrapped(whole_binary(inst.op, all.whole, v.whole), inst.type);
  }
  return is_real(inst.type) ? rounded(all.number, inst.type) : all;
}

class Interpreter {
 public:
  Interpreter(const KernelIr& kernel, const StepShape& shape) : kernel_(kernel), per_element_(kernel.per_element()) {
    for (const Quantity& q : kernel.extents) extents_.push_back(value_of(q, shape));
    for (const Access& a : kernel.accesses) {
      strides_.emplace_back();
      for (const Quantity& q : a.strides) strides_.back().push_back(value_of(q, shape));
      starts_.push_back(0);
      for (const Quantity& q : a.offset) starts_.back() += value_of(q, shape);
    }
    for (const Quantity& q : kernel.sizes) sizes_.push_back(value_of(q, shape));
  }

  void run(const std::vector<Tensor>& operands) {
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < extents_.size(); ++i) rows *= extents_[i];
    for (int64_t row = 0; row < rows; ++row) run_row(operands, row);
  }

 private:
  int64_t offset(int32_t access, int64_t row, int64_t column) const {
    const std::vector<int64_t>& strides = strides_[static_cast<size_t>(access)];
    int64_t at = starts_[static_cast<size_t>(access)] + column * strides.back();
    for (size_t i = 0; i + 1 < extents_.size(); ++i) at += coordinate(i, row, column) * strides[i];
    return at;
  }

  int64_t coordinate(size_t axis, int64_t row, int64_t column) const {
    if (axis + 1 == extents_.size()) return column;
    for (size_t i = extents_.size() - 1; i-- > axis + 1;) row /= extents_[i];
    return row % extents_[axis];
  }

  void run_row(const std::vector<Tensor>& operands, int64_t row) {
    const int64_t columns = extents_.back();
    std::vector<std::vector<Value>> values(kernel_.insts.size());
    for (size_t i = 0; i < kernel_.insts.size(); ++i) {
      const Inst& inst = kernel_.insts[i];
      if (is_reduction(inst.op)) {
        values[i] = {reduce(inst, values[static_cast<size_t>(inst.args[0])], columns)};
        continue;
      }
      values[i].resize(per_element_[i] ? static_cast<size_t>(columns) : 1);
      for (size_t c = 0; c < values[i].size(); ++c) {
        values[i][c] = value(inst, operands, values, row, static_cast<int64_t>(c));
      }
    }
    for (const Store& s : kernel_.stores) {
      const Access& access = kernel_.accesses[static_cast<size_t>(s.access)];
      const std::vector<Value>& v = values[static_cast<size_t>(s.value)];
      const int64_t count = access.moves_along_row() ? columns : 1;
      for (int64_t c = 0; c < count; ++c) {
        write(operands[static_cast<size_t>(access.operand)], offset(s.access, row, c),
              v[v.size() == 1 ? 0 : static_cast<size_t>(c)]);
      }
    }
  }

  Value value(const Inst& inst, const std::vector<Tensor>& operands, const std::vector<std::vector<Value>>& values,
              int64_t row, int64_t column) const {
    if (inst.op == Opcode::CONST) return cast({inst.number, 0}, DType::FLOAT64, inst.type);
    if (inst.op == Opcode::ROW_SIZE) return cast({0, extents_.back()}, DType::INT64, inst.type);
    if (inst.op == Opcode::SIZE) return {0, sizes_[static_cast<size_t>(inst.access)]};
    if (inst.op == Opcode::INDEX) return {0, coordinate(static_cast<size_t>(inst.access), row, column)};
    Value args[3];
    for (int k = 0; k < 3; ++k) {
      if (inst.args[k] < 0) continue;
      const std::vector<Value>& v = values[static_cast<size_t>(inst.args[k])];
      args[k] = v[v.size() == 1 ? 0 : static_cast<size_t>(column)];
    }
    if (inst.op == Opcode::LOAD) {
      if (inst.args[1] >= 0 && args[1].whole == 0) return {};
      const Access& access = kernel_.accesses[static_cast<size_t>(inst.access)];
      return read(operands[static_cast<size_t>(access.operand)], offset(inst.access, row, column) + args[0].whole);
    }
    return apply(inst, kernel_.insts[static_cast<size_t>(inst.args[0])].type, args);
  }

  const KernelIr& kernel_;
  std::vector<bool> per_element_;
  std::vector<int64_t> extents_;
  std::vector<std::vector<int64_t>> strides_;
  std::vector<int64_t> starts_;
  std::vector<int64_t> sizes_;
};

}  // namespace

std::vector<Tensor> interpret(const KernelIr& kernel, const StepShape& shape, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> operands = inputs;
  std::vector<Tensor> outputs;
  for (const TensorDesc& d : shape.outputs) {
    outputs.emplace_back(d.dtype, d.dims);
    operands.push_back(outputs.back());
  }
  Interpreter(kernel, shape).run(operands);
  return outputs;
}

}  // namespace deepjit

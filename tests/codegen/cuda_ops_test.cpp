// Every instruction of the kernel IR as CUDA text, run without a GPU against what the instruction means.
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/ir_builder.h"
#include "cuda_cases.h"

namespace deepjit {
namespace {

using Ref = IrBuilder::Ref;

constexpr DType kMemory[] = {DType::FLOAT32, DType::FLOAT64, DType::FLOAT16, DType::BFLOAT16, DType::BOOL, DType::INT8,
                             DType::UINT8,   DType::INT16,   DType::UINT16,  DType::INT32,    DType::INT64};

const Quantity kOne{};

struct Result {
  DType type;
  std::function<Ref(IrBuilder&, const std::vector<Ref>&)> formula;
};

// A kernel over one axis of any length: some inputs, and an output for each result.
CudaCase pointwise(const std::string& name, const std::vector<DType>& inputs, const std::vector<Result>& results,
                   int width = 4) {
  const Dims dims = {1031};
  IrBuilder b;
  b.kernel.inputs = static_cast<int32_t>(inputs.size());
  b.kernel.extents = {{1, {{0, 0}}}};
  std::vector<Ref> x;
  CudaCase made;
  for (size_t i = 0; i < inputs.size(); ++i) {
    x.push_back(b.load({static_cast<int32_t>(i), inputs[i], {kOne}}));
    made.inputs.push_back({inputs[i], dims});
  }
  for (const Result& result : results) {
    const auto operand = static_cast<int32_t>(inputs.size() + made.outputs.size());
    b.store(result.formula(b, x), {operand, result.type, {kOne}});
    made.outputs.push_back({result.type, dims});
  }
  made.name = name;
  made.kernel = b.kernel;
  made.mapping = {width, 0};
  return made;
}

Result unary(Opcode op, DType type) {
  return {type, [op](IrBuilder& b, const auto& x) { return b.unary(op, x[0]); }};
}

Result binary(Opcode op, DType type) {
  return {type, [op](IrBuilder& b, const auto& x) { return b.binary(op, x[0], x[1]); }};
}

void add_real(std::vector<CudaCase>& cases) {
  for (DType type : {DType::FLOAT32, DType::FLOAT64}) {
    std::vector<Result> one = {unary(Opcode::IS_NAN, DType::BOOL)};
    for (Opcode op : {Opcode::NEG, Opcode::ABS, Opcode::SQRT, Opcode::EXP, Opcode::LOG, Opcode::ERF, Opcode::TANH,
                      Opcode::SIGMOID, Opcode::FLOOR, Opcode::CEIL, Opcode::ROUND, Opcode::RECIPROCAL}) {
      one.push_back(unary(op, type));
    }
    cases.push_back(pointwise("functions of " + std::string(dtype_name(type)), {type}, one, 2));
    std::vector<Result> two;
    for (Opcode op : {Opcode::ADD, Opcode::SUB, Opcode::MUL, Opcode::DIV, Opcode::MIN, Opcode::MAX}) {
      two.push_back(binary(op, type));
    }
    for (Opcode op : {Opcode::EQ, Opcode::LT, Opcode::LE}) two.push_back(binary(op, DType::BOOL));
    cases.push_back(pointwise("arithmetic of " + std::string(dtype_name(type)), {type, type}, two));
  }
}

void add_whole(std::vector<CudaCase>& cases) {
  for (DType type : {DType::INT32, DType::INT64}) {
    std::vector<Result> all = {unary(Opcode::NEG, type), unary(Opcode::ABS, type)};
    for (Opcode op :
         {Opcode::ADD, Opcode::SUB, Opcode::MUL, Opcode::MIN, Opcode::MAX, Opcode::AND, Opcode::OR, Opcode::XOR}) {
      all.push_back(binary(op, type));
    }
    for (Opcode op : {Opcode::EQ, Opcode::LT, Opcode::LE}) all.push_back(binary(op, DType::BOOL));
    cases.push_back(pointwise("arithmetic of " + std::string(dtype_name(type)), {type, type}, all));
  }
  std::vector<Result> logic = {unary(Opcode::NOT, DType::BOOL)};
  for (Opcode op : {Opcode::AND, Opcode::OR, Opcode::XOR, Opcode::EQ}) logic.push_back(binary(op, DType::BOOL));
  cases.push_back(pointwise("logic", {DType::BOOL, DType::BOOL}, logic, 8));
}

// From memory through registers to memory, for every pair of types.
void add_casts(std::vector<CudaCase>& cases) {
  for (DType from : kMemory) {
    std::vector<Result> all;
    for (DType to : kMemory) {
      all.push_back({to, [to](IrBuilder& b, const auto& x) { return b.cast(x[0], compute_type(to)); }});
    }
    cases.push_back(pointwise("casts of " + std::string(dtype_name(from)), {from}, all));
  }
  std::vector<Result> rounded;
  for (DType through : {DType::FLOAT16, DType::BFLOAT16}) {
    rounded.push_back({DType::FLOAT32, [through](IrBuilder& b, const auto& x) { return b.round_to(x[0], through); }});
  }
  cases.push_back(pointwise("rounding", {DType::FLOAT32}, rounded));
}

void add_selects_and_numbers(std::vector<CudaCase>& cases) {
  const double numbers[] = {0.0,  -0.0,     1.0,      -1.0,      0.1, 1e-40,        3.4e38,        -2.5e-7, 1e300,
                            4e15, 16777217, INFINITY, -INFINITY, NAN, 2147483647.0, -2147483648.0, 9.3e18,  -9.3e18};
  for (DType type : {DType::FLOAT32, DType::FLOAT64, DType::INT32, DType::INT64, DType::BOOL}) {
    std::vector<Result> all = {{type, [](IrBuilder& b, const auto& x) { return b.select(x[0], x[1], x[2]); }}};
    for (double number : numbers) {
      if (type == DType::BOOL || (std::isnan(number) && !is_float(type))) continue;
      all.push_back({type, [number](IrBuilder& b, const auto& x) {
                       return b.select(x[0], b.constant(number, b.type(x[1])), x[1]);
                     }});
    }
    cases.push_back(pointwise("numbers of " + std::string(dtype_name(type)), {DType::BOOL, type, type}, all, 1));
  }
}

TEST(CudaOps, MeanWhatTheySay) {
  std::vector<CudaCase> cases;
  add_real(cases);
  add_whole(cases);
  add_casts(cases);
  add_selects_and_numbers(cases);
  for (CudaCase& c : cases) c.exact = c.name.rfind("functions", 0) != 0;
  check_cases(cases);
}

}  // namespace
}  // namespace deepjit

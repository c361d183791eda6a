// Generated CUDA kernels as a whole: mappings of all kinds, lengths around their widths, broadcasts, row buffers.
#include <gtest/gtest.h>

#include "codegen/ir_builder.h"
#include "cuda_cases.h"

namespace deepjit {
namespace {

using Ref = IrBuilder::Ref;

const Quantity kOne{};
const Quantity kZero{0, {}};

Quantity dim(int operand, int axis) { return {1, {{static_cast<int16_t>(operand), static_cast<int16_t>(axis)}}}; }

// in[rows, columns] -> a value a row, or a row of values.
KernelIr row_kernel(DType type, bool per_row, const std::function<Ref(IrBuilder&, Ref)>& formula) {
  IrBuilder b;
  b.kernel.inputs = 1;
  b.kernel.extents = {dim(0, 0), dim(0, 1)};
  const Ref x = b.load({0, type, {dim(0, 1), kOne}});
  const Ref y = formula(b, x);
  b.store(y, per_row ? Access{1, type, {kOne, kZero}} : Access{1, type, {dim(0, 1), kOne}});
  return b.kernel;
}

CudaCase row_case(const std::string& name, const KernelIr& kernel, const CudaMapping& mapping, const Dims& dims) {
  CudaCase c;
  c.name = name + " at " + dims.to_string() + " as " + mapping.to_string();
  c.kernel = kernel;
  c.mapping = mapping;
  const DType type = kernel.accesses[0].dtype;
  c.inputs = {{type, dims}};
  const bool per_row = !kernel.accesses[static_cast<size_t>(kernel.stores[0].access)].moves_along_row();
  c.outputs = {{type, per_row ? Dims{dims[0]} : dims}};
  c.tolerance = 2e-5;
  return c;
}

Ref softmax(IrBuilder& b, Ref x) {
  const Ref e = b.unary(Opcode::EXP, b.binary(Opcode::SUB, x, b.reduce(Opcode::MAXIMUM, x)));
  return b.binary(Opcode::MUL, e, b.unary(Opcode::RECIPROCAL, b.reduce(Opcode::SUM, e)));
}

Ref layer_norm(IrBuilder& b, Ref x) {
  const Ref n = b.row_size(b.type(x));
  const Ref d = b.binary(Opcode::SUB, x, b.binary(Opcode::DIV, b.reduce(Opcode::SUM, x), n));
  const Ref v = b.binary(Opcode::DIV, b.reduce(Opcode::SUM, b.binary(Opcode::MUL, d, d)), n);
  const Ref s = b.unary(Opcode::SQRT, b.binary(Opcode::ADD, v, b.constant(1e-5)));
  return b.binary(Opcode::DIV, d, s);
}

const Dims kShapes[] = {{1, 1},   {5, 2},    {3, 7},    {9, 8}, {2, 31}, {4, 64},
                        {5, 129}, {3, 1000}, {1, 4099}, {0, 8}, {3, 0}};

TEST(CudaRows, ReductionsOfEveryKindAndType) {
  std::vector<CudaCase> cases;
  for (DType type : {DType::FLOAT32, DType::FLOAT64, DType::INT32, DType::INT64}) {
    for (Opcode op : {Opcode::SUM, Opcode::PRODUCT, Opcode::MINIMUM, Opcode::MAXIMUM}) {
      const KernelIr kernel = row_kernel(type, true, [op](IrBuilder& b, Ref x) { return b.reduce(op, x); });
      for (const Dims& dims : kShapes) {
        for (const CudaMapping& mapping : {CudaMapping{2, 8}, {1, 256}, {1, 2, 0, true}}) {
          CudaCase c = row_case(std::string(opcode_name(op)), kernel, mapping, dims);
          // Sums of values of both signs lose digits; products of many overflow here and not there.
          c.hard = op == Opcode::MINIMUM || op == Opcode::MAXIMUM || !is_float(type);
          if (is_float(type)) c.scale = 1;
          if (op == Opcode::PRODUCT && is_float(type) && dims[1] > 8) continue;
          cases.push_back(c);
        }
      }
    }
  }
  check_cases(cases);
}

TEST(CudaRows, SoftmaxAndNormInEveryMapping) {
  std::vector<CudaCase> cases;
  for (DType type : {DType::FLOAT32, DType::FLOAT16}) {
    const KernelIr soft = row_kernel(type, false, softmax);
    const KernelIr norm = row_kernel(type, false, layer_norm);
    for (const CudaMapping& mapping : {CudaMapping{1, 1},
                                       {1, 2},
                                       {8, 4},
                                       {4, 32},
                                       {1, 32},
                                       {2, 64},
                                       {4, 512},
                                       {8, 1024},
                                       {1, 1024},
                                       {1, 2, 1},
                                       {8, 4, 2},
                                       {2, 32, 3},
                                       {1, 64, 5},
                                       {8, 128, 1},
                                       {8, 512, 2},
                                       {1, 4, 0, true}}) {
      if (type == DType::FLOAT16 && mapping.per_thread < 8 && !mapping.across) continue;
      for (const Dims& dims : kShapes) {
        cases.push_back(row_case("softmax", soft, mapping, dims));
        CudaCase c = row_case("norm", norm, mapping, dims);
        c.hard = false;
        c.scale = 0.1;
        if (dims[1] > 2) cases.push_back(c);
      }
    }
  }
  check_cases(cases);
}

// x[N, C, W] * scale[C] + bias[W], and the sum of two more operands of other types; also turned: y[C, N, W].
KernelIr broadcast_kernel(bool turned) {
  IrBuilder b;
  b.kernel.inputs = 3;
  b.kernel.extents = {dim(0, 0), dim(0, 1), dim(0, 2)};
  const Quantity row = dim(0, 2);
  const Ref x = b.load({0, DType::FLOAT32, {dim(0, 1) * row, row, kOne}});
  const Ref scale = b.load({1, DType::FLOAT16, {kZero, kOne, kZero}});
  const Ref bias = b.load({2, DType::INT8, {kZero, kZero, kOne}});
  const Ref y = b.binary(Opcode::ADD, b.binary(Opcode::MUL, x, scale), b.cast(bias, DType::FLOAT32));
  b.store(y, turned ? Access{3, DType::FLOAT32, {row, dim(0, 0) * row, kOne}}
                    : Access{3, DType::FLOAT32, {dim(0, 1) * row, row, kOne}});
  return b.kernel;
}

TEST(CudaRows, FlatKernelsOfManyShapes) {
  std::vector<CudaCase> cases;
  for (bool turned : {false, true}) {
    const KernelIr kernel = broadcast_kernel(turned);
    for (int width : {1, 2, 4, 8}) {
      for (const Dims& d : {Dims{1, 1, 1}, Dims{3, 5, 7}, Dims{2, 3, 64}, Dims{7, 1, 16}, Dims{1, 4, 1001},
                            Dims{0, 4, 8}, Dims{2, 0, 8}, Dims{2, 3, 0}, Dims{600, 3, 2}}) {
        CudaCase c;
        c.name = "broadcast at " + d.to_string();
        c.kernel = kernel;
        c.mapping = {width, 0};
        c.inputs = {{DType::FLOAT32, d}, {DType::FLOAT16, {d[1]}}, {DType::INT8, {d[2]}}};
        c.outputs = {{DType::FLOAT32, turned ? Dims{d[1], d[0], d[2]} : d}};
        cases.push_back(c);
      }
    }
  }
  check_cases(cases);
}

// Without reductions, but with an output that is stored once a row.
TEST(CudaRows, StoresOnceARow) {
  IrBuilder b;
  b.kernel.inputs = 2;
  b.kernel.extents = {dim(0, 0), dim(0, 1)};
  const Ref x = b.load({0, DType::FLOAT32, {dim(0, 1), kOne}});
  const Ref s = b.unary(Opcode::EXP, b.load({1, DType::FLOAT32, {kOne, kZero}}));
  b.store(b.binary(Opcode::MUL, x, s), {2, DType::FLOAT32, {dim(0, 1), kOne}});
  b.store(s, {3, DType::FLOAT32, {kOne, kZero}});
  std::vector<CudaCase> cases;
  for (const CudaMapping& mapping : {CudaMapping{4, 4}, {4, 32}, {4, 256}, {4, 8, 2}, {2, 256, 2}}) {
    for (const Dims& d : kShapes) {
      CudaCase c;
      c.name = "scaled at " + d.to_string();
      c.kernel = b.kernel;
      c.mapping = mapping;
      c.inputs = {{DType::FLOAT32, d}, {DType::FLOAT32, {d[0]}}};
      c.outputs = {{DType::FLOAT32, d}, {DType::FLOAT32, {d[0]}}};
      cases.push_back(c);
    }
  }
  check_cases(cases);
}

// Rows that lie across memory: softmax over C of x[N, C, W], the row walked in steps of W.
KernelIr inner_softmax() {
  IrBuilder b;
  b.kernel.inputs = 1;
  b.kernel.lanes = true;
  b.kernel.extents = {dim(0, 0), dim(0, 2), dim(0, 1)};
  const std::vector<Quantity> strides = {dim(0, 1) * dim(0, 2), kOne, dim(0, 2)};
  b.store(softmax(b, b.load({0, DType::FLOAT32, strides})), {1, DType::FLOAT32, strides});
  return b.kernel;
}

TEST(CudaRows, RowsAcrossMemory) {
  std::vector<CudaCase> cases;
  for (const CudaMapping& mapping :
       {CudaMapping{1, 1}, {1, 32}, {4, 128}, {4, 32, 3}, {1, 8, 7}, {1, 2, 0, true}, {1, 16, 0, true}}) {
    for (const Dims& d :
         {Dims{1, 1, 1}, Dims{2, 5, 3}, Dims{3, 40, 67}, Dims{1, 300, 130}, Dims{0, 3, 4}, Dims{2, 0, 4}}) {
      CudaCase c;
      c.name = "inner softmax at " + d.to_string();
      c.kernel = inner_softmax();
      c.mapping = mapping;
      c.inputs = c.outputs = {{DType::FLOAT32, d}};
      c.tolerance = 2e-5;
      cases.push_back(c);
    }
  }
  check_cases(cases);
}

// y[N, P] of x[N, W]: elements 2, 5, 8 ... of each row from the other end, zeros where the row has none left; plus
// b[i[p]], found by an index in memory; plus the coordinates themselves.
KernelIr index_kernel() {
  IrBuilder b;
  b.kernel.inputs = 3;
  b.kernel.extents = {dim(3, 0), dim(3, 1)};
  const Ref n = b.index(0);
  const Ref p = b.index(1);
  const Ref width = b.size(dim(0, 1));
  Access x{0, DType::FLOAT32, {dim(0, 1), {-3, {}}}};
  x.add_offset(dim(0, 1));
  x.add_offset({-3, {}});
  const Ref room = b.binary(Opcode::SUB, width, b.constant(3, DType::INT64));
  const Ref there = b.binary(Opcode::LE, b.binary(Opcode::MUL, p, b.constant(3, DType::INT64)), room);
  const Ref from = b.load(x, -1, there);
  const Ref where = b.load({1, DType::INT64, {kZero, kOne}});
  const Ref found = b.load({2, DType::FLOAT16, {kZero, kZero}}, where);
  const Ref first =
      b.load({2, DType::FLOAT16, {kZero, kZero}}, n, b.binary(Opcode::LT, n, b.constant(2, DType::INT64)));
  const Ref at = b.cast(b.binary(Opcode::ADD, n, p), DType::FLOAT32);
  const Ref sum = b.binary(Opcode::ADD, b.binary(Opcode::ADD, from, found), b.binary(Opcode::MUL, first, at));
  b.store(sum, {3, DType::FLOAT32, {dim(3, 1), kOne}});
  return b.kernel;
}

TEST(CudaRows, ComputedPlacesAndConditions) {
  std::vector<CudaCase> cases;
  for (int width : {1, 4}) {
    for (const auto& [in, out] :
         {std::pair{Dims{3, 20}, Dims{3, 9}}, {Dims{5, 64}, Dims{5, 16}}, {Dims{1, 3}, Dims{1, 1}}}) {
      CudaCase c;
      c.name = "indices at " + in.to_string();
      c.kernel = index_kernel();
      c.mapping = {width, 0};
      c.inputs = {{DType::FLOAT32, in}, {DType::INT64, {out[1]}}, {DType::FLOAT16, {8}}};
      c.outputs = {{DType::FLOAT32, out}};
      c.index_below = 8;
      cases.push_back(c);
    }
  }
  check_cases(cases);
}

TEST(CudaRows, AReductionStoredAlongItsRow) {
  const KernelIr kernel =
      row_kernel(DType::FLOAT32, false, [](IrBuilder& b, Ref x) { return b.reduce(Opcode::MAXIMUM, x); });
  std::vector<CudaCase> cases;
  for (const CudaMapping& mapping : {CudaMapping{4, 32}, {1, 256}, {4, 64, 4}, {1, 128, 1}, {1, 8, 0, true}}) {
    for (const Dims& dims : kShapes) cases.push_back(row_case("maximum", kernel, mapping, dims));
  }
  check_cases(cases);
}

TEST(CudaRows, MappingsFollowTheColumns) {
  const KernelIr soft = row_kernel(DType::FLOAT32, false, softmax);
  const KernelIr heavy = row_kernel(DType::FLOAT32, false, [](IrBuilder& b, Ref x) {
    for (int i = 0; i < 60; ++i) x = b.unary(Opcode::TANH, b.unary(Opcode::NEG, x));
    return softmax(b, x);
  });
  auto names = [](const KernelIr& kernel, int64_t columns) {
    std::string text;
    for (const CudaMapping& m : cuda_mappings(kernel, columns)) text += m.to_string() + " ";
    return text;
  };
  EXPECT_EQ(names(soft, 10), "row8x2x1 row4x2x2 row2x2x3 ");
  EXPECT_EQ(names(soft, 256), "row64x4x1 row32x4x2 row16x4x4 row8x4x8 ");
  EXPECT_EQ(names(soft, 768), "row256x4x1 row128x4x2 row64x4x3 row32x4x6 ");
  EXPECT_EQ(names(soft, 4096), "row1024x4x1 row512x4x2 row256x4x4 row128x4x8 ");
  EXPECT_EQ(names(soft, 4097), "row1024x1x5 ");
  EXPECT_EQ(names(soft, 40000), "row512x4 row128x4 row32x4 ");
  EXPECT_EQ(names(heavy, 256), "row256x1x1 row128x2x1 row64x4x1 ");
  EXPECT_EQ(names(inner_softmax(), 4096), "across16 across4 row1x1 ");
  EXPECT_EQ(names(inner_softmax(), 20), "across4 row1x1 ");
  EXPECT_EQ(names(broadcast_kernel(false), 64), "flat8 flat1 ");
  EXPECT_EQ(names(broadcast_kernel(false), 63), "flat1 ");
  for (const char* name : {"flat1", "flat8", "row2x1", "row1024x8", "row64x4x3", "across16"}) {
    EXPECT_EQ(CudaMapping::parse(name).to_string(), name);
  }
}

TEST(CudaRows, WhatNobodyStoresIsNotComputed) {
  const KernelIr kernel = row_kernel(DType::FLOAT32, false, [](IrBuilder& b, Ref x) {
    b.binary(Opcode::ADD, b.reduce(Opcode::MAXIMUM, b.unary(Opcode::TANH, x)), b.row_size());
    return b.binary(Opcode::SUB, x, b.reduce(Opcode::SUM, x));
  });
  const std::string text = emit_cuda_text(kernel, {4, 32}).source;
  EXPECT_EQ(text.find("tanh"), std::string::npos) << text;
  EXPECT_EQ(text.find("(float)columns"), std::string::npos) << text;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(CudaRows, CostlyValuesAreKept) {
  EXPECT_EQ(emit_cuda_text(row_kernel(DType::FLOAT32, false, softmax), {4, 32}).row_buffers, 1);
  EXPECT_EQ(emit_cuda_text(row_kernel(DType::FLOAT32, false, layer_norm), {4, 32}).row_buffers, 0);
}

TEST(CudaRows, ResidentRowsAreReadOnceAndComputedOnce) {
  const KernelIr kernel = row_kernel(DType::FLOAT32, false, softmax);
  const CudaText text = emit_cuda_text(kernel, {4, 32, 2});
  EXPECT_EQ(text.row_buffers, 0);
  const size_t general = text.source.find("} else {");
  ASSERT_NE(general, std::string::npos) << text.source;
  const std::string fast = text.source.substr(0, general);
  EXPECT_EQ(count(fast, "*(const float_x4*)(a0"), 1u) << fast;
  EXPECT_EQ(count(fast, "expf("), 1u) << fast;
}

// A value of another type that a later pass reads, and an operand that only the last pass needs.
TEST(CudaRows, ValuesOfEveryTypeStayInRegisters) {
  IrBuilder b;
  b.kernel.inputs = 2;
  b.kernel.extents = {dim(0, 0), dim(0, 1)};
  const Ref x = b.load({0, DType::FLOAT32, {dim(0, 1), kOne}});
  const Ref scale = b.unary(Opcode::EXP, b.load({1, DType::FLOAT32, {kZero, kOne}}));
  const Ref place = b.binary(Opcode::MUL, b.cast(b.unary(Opcode::EXP, x), DType::INT64), b.index(1));
  const Ref large = b.binary(Opcode::LT, b.constant(1), b.unary(Opcode::EXP, x));
  const Ref peak = b.reduce(Opcode::MAXIMUM, place);
  const Ref most = b.cast(peak, DType::FLOAT32);
  const Ref share = b.binary(Opcode::SUB, b.cast(place, DType::FLOAT32), most);
  b.store(b.select(large, b.binary(Opcode::MUL, share, scale), b.constant(0)), {2, DType::FLOAT32, {dim(0, 1), kOne}});
  std::vector<CudaCase> cases;
  for (const CudaMapping& mapping : {CudaMapping{4, 32, 2}, {1, 64, 4}, {4, 32}}) {
    for (const Dims& d : kShapes) {
      CudaCase c;
      c.name = "types at " + d.to_string();
      c.kernel = b.kernel;
      c.mapping = mapping;
      c.inputs = {{DType::FLOAT32, d}, {DType::FLOAT32, {d[1]}}};
      c.outputs = {{DType::FLOAT32, d}};
      c.hard = false;
      cases.push_back(c);
    }
  }
  check_cases(cases);
  const std::string text = emit_cuda_text(b.kernel, {4, 32}).source;
  EXPECT_LT(text.find("long long v" + std::to_string(peak) + " ="), text.find("a1 + column")) << text;
}

}  // namespace
}  // namespace deepjit

// What a model becomes: values, types, constants, bodies, functions, names.
#include "import_test_util.h"

namespace deepjit {
namespace {

TEST(Import, NamesTypesAndMetadata) {
  ModelBuilder m;
  add_input(m.graph(), "x", {"batch size", 3});
  add_input(m.graph(), "z", {"batch size", 3});
  set_floats(*m.graph().add_initializer(), "w", {3}, {1, 2, 3});
  add_node(m.graph(), "Add", {"x", "w"}, {"h"}, "first");
  add_node(m.graph(), "Mul", {"h", "z"}, {"y"});
  add_output(m.graph(), "y");
  m.model.set_producer_name("maker");
  m.model.set_producer_version("2.1");
  auto* entry = m.model.add_metadata_props();
  entry->set_key("labels");
  entry->set_value("cat,dog");
  const ImportedModel got = m.load();
  EXPECT_EQ(ops_of(*got.graph), (Names{"Add", "Mul"}));
  EXPECT_EQ(got.graph->inputs[0]->name, "x");
  EXPECT_EQ(got.graph->outputs[0]->name, "y");
  EXPECT_EQ(got.graph->inputs[0]->type.to_string(), "float32[batch_size,3]");
  EXPECT_EQ(got.graph->outputs[0]->type.to_string(), "float32[batch_size,3]");
  const Node& add = *got.graph->nodes().front();
  EXPECT_EQ(add.origins, Names{"first"});
  EXPECT_EQ(add.input(1)->constant.to_f64(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(got.graph->nodes().back()->name, "Mul_1");
  EXPECT_EQ(got.producer, "maker 2.1");
  EXPECT_EQ(got.metadata.at("labels"), "cat,dog");
  EXPECT_EQ(got.opset, 17);
}

TEST(Import, UnknownDimsAreSymbolsOfTheirOwn) {
  ModelBuilder m;
  add_input(m.graph(), "a", {"?", 2});
  add_input(m.graph(), "b", {"?", 2});
  add_input(m.graph(), "c", {"a+b", "a-b"});
  m.graph().add_input()->set_name("d");
  m.graph().mutable_input(3)->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  for (const char* name : {"a", "b", "c", "d"}) {
    add_node(m.graph(), "Relu", {name}, {std::string(name) + "_out"});
    add_output(m.graph(), std::string(name) + "_out");
  }
  const ImportedModel got = m.load();
  const auto shape = [&](size_t i) { return got.graph->inputs[i]->type.shape; };
  EXPECT_NE(shape(0)[0], shape(1)[0]);
  EXPECT_NE(shape(2)[0], shape(2)[1]);
  EXPECT_FALSE(shape(3).ranked());
}

TEST(Import, InitializerOfAnInputsNameIsItsDefault) {
  for (int64_t ir : {3, 4}) {
    ModelBuilder m(7, ir);
    add_input(m.graph(), "x", {2});
    add_input(m.graph(), "w", {2});
    set_floats(*m.graph().add_initializer(), "w", {2}, {5, 6});
    add_node(m.graph(), "Add", {"x", "w"}, {"y"});
    add_output(m.graph(), "y");
    const ImportedModel got = m.load();
    const Value* w = got.graph->nodes().front()->input(1);
    if (ir == 3) {
      EXPECT_EQ(got.graph->inputs.size(), 1u);
      EXPECT_TRUE(w->is_constant());
    } else {
      ASSERT_EQ(got.graph->inputs.size(), 2u);
      EXPECT_FALSE(w->is_constant());
      EXPECT_EQ(w->default_value.to_f64(), (std::vector<double>{5, 6}));
    }
  }
}

TEST(Import, SparseInitializerIsExpanded) {
  ModelBuilder m;
  add_input(m.graph(), "x", {2, 3});
  auto* sparse = m.graph().add_sparse_initializer();
  set_floats(*sparse->mutable_values(), "w", {2}, {7, 8});
  set_ints(*sparse->mutable_indices(), "", {2, 2}, {0, 1, 1, 2});
  sparse->add_dims(2);
  sparse->add_dims(3);
  add_node(m.graph(), "Add", {"x", "w"}, {"y"});
  add_output(m.graph(), "y");
  const ImportedModel got = m.load();
  EXPECT_EQ(got.graph->nodes().front()->input(1)->constant.to_f64(), (std::vector<double>{0, 7, 0, 0, 0, 8}));
  sparse->mutable_indices()->set_int64_data(3, 3);
  EXPECT_EQ(error_of([&] { m.load(); }).code(), Code::TENSOR_DATA);
}

TEST(Import, ConstantNodesInAllForms) {
  ModelBuilder m;
  const auto constant = [&](const std::string& name) -> onnx::NodeProto& {
    add_output(m.graph(), name);
    return add_node(m.graph(), "Constant", {}, {name});
  };
  add_float(constant("f"), "value_float", 1.5f);
  add_int(constant("i"), "value_int", 7);
  add_ints(constant("is"), "value_ints", {1, 2});
  add_string(constant("s"), "value_string", "text");
  set_ints(*add_attribute(constant("t"), "value", onnx::AttributeProto::TENSOR).mutable_t(), "", {2}, {3, 4});
  const ImportedModel got = m.load();
  EXPECT_TRUE(got.graph->nodes().empty());
  const auto value = [&](size_t i) { return got.graph->outputs[i]->constant; };
  EXPECT_EQ(value(0).to_f64(), std::vector<double>{1.5});
  EXPECT_EQ(value(1).dims().rank(), 0);
  EXPECT_EQ(value(2).to_i64(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*value(3).as<std::string>(), "text");
  EXPECT_EQ(value(4).to_i64(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(got.graph->outputs[4]->name, "t");
}

Tensor load_tensor(onnx::TensorProto tensor) {
  ModelBuilder m;
  tensor.set_name("y");
  *m.graph().add_initializer() = tensor;
  add_output(m.graph(), "y");
  return m.load().graph->outputs[0]->constant;
}

TEST(Import, ElementTypes) {
  onnx::TensorProto t;
  t.add_dims(3);
  t.set_data_type(onnx::TensorProto::INT4);
  t.set_raw_data("\xf1\x08");  // 1, -1, -8
  const Tensor int4_tensor = load_tensor(t);
  EXPECT_EQ(int4_tensor.dtype(), DType::INT4);
  EXPECT_EQ(int4_tensor.to_i64(), (std::vector<int64_t>{1, -1, -8}));
  t.set_data_type(onnx::TensorProto::UINT4);
  EXPECT_EQ(load_tensor(t).to_i64(), (std::vector<int64_t>{1, 15, 8}));
  t.clear_raw_data();
  t.add_int32_data(0xf1);
  t.add_int32_data(8);
  EXPECT_EQ(load_tensor(t).to_i64(), (std::vector<int64_t>{1, 15, 8}));
  t.set_data_type(onnx::TensorProto::INT2);
  t.clear_int32_data();
  t.add_int32_data(0x39);
  EXPECT_EQ(load_tensor(t).to_i64(), (std::vector<int64_t>{1, -2, -1}));
  t.set_data_type(onnx::TensorProto::UINT2);
  EXPECT_EQ(load_tensor(t).to_i64(), (std::vector<int64_t>{1, 2, 3}));
  t.clear_int32_data();
  t.set_raw_data("\xf1\x08");
  t.set_data_type(onnx::TensorProto::FLOAT4E2M1);
  EXPECT_EQ(load_tensor(t).as<uint8_t>()[1], 15);
  t.clear_raw_data();
  t.set_data_type(onnx::TensorProto::FLOAT16);
  for (int bits : {0x3c00, 0xc000, 0x3800}) t.add_int32_data(bits);
  EXPECT_EQ(load_tensor(t).to_f64(), (std::vector<double>{1, -2, 0.5}));
  t.set_data_type(onnx::TensorProto::BFLOAT16);
  t.clear_int32_data();
  for (int bits : {0x3f80, 0xc000, 0x3f00}) t.add_int32_data(bits);
  EXPECT_EQ(load_tensor(t).to_f64(), (std::vector<double>{1, -2, 0.5}));
  t.set_data_type(onnx::TensorProto::BOOL);
  t.clear_int32_data();
  t.set_raw_data(std::string("\x02\x00\x01", 3));
  EXPECT_EQ(load_tensor(t).to_i64(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(load_tensor(t).as<uint8_t>()[0], 1);
  t.clear_raw_data();
  t.set_data_type(onnx::TensorProto::STRING);
  for (const char* s : {"a", "", "c"}) t.add_string_data(s);
  EXPECT_EQ(load_tensor(t).as<std::string>()[2], "c");
  t.set_data_type(onnx::TensorProto::UINT32);
  t.clear_string_data();
  for (uint64_t v : {1ull, 4294967295ull, 3ull}) t.add_uint64_data(v);
  EXPECT_EQ(load_tensor(t).to_i64()[1], 4294967295);
  t.set_data_type(onnx::TensorProto::FLOAT8E4M3FN);
  t.clear_uint64_data();
  t.set_raw_data("\x38\x40\x7f");
  EXPECT_EQ(load_tensor(t).as<uint8_t>()[1], 0x40);
}

// x -> If(cond): then x + w, else w itself, where w is an initializer outside.
ModelBuilder if_model() {
  ModelBuilder m;
  add_input(m.graph(), "cond", {}, onnx::TensorProto::BOOL);
  add_input(m.graph(), "x", {2});
  set_floats(*m.graph().add_initializer(), "w", {2}, {1, 2});
  auto& node = add_node(m.graph(), "If", {"cond"}, {"y"}, "choice");
  auto& yes = add_graph(node, "then_branch");
  add_node(yes, "Add", {"x", "w"}, {"r"});
  add_output(yes, "r");
  auto& no = add_graph(node, "else_branch");
  add_output(no, "w");
  add_output(m.graph(), "y");
  return m;
}

TEST(Import, IfReadsOuterValues) {
  const ImportedModel got = if_model().load();
  const Node& node = node_of(*got.graph, "If");
  ASSERT_EQ(node.bodies.size(), 2u);
  EXPECT_EQ(ops_of(*node.bodies[0]), Names{"Add"});
  EXPECT_EQ(node.bodies[0]->nodes().front()->input(0), got.graph->inputs[1]);
  EXPECT_TRUE(node.bodies[1]->nodes().empty());
  EXPECT_TRUE(node.bodies[1]->outputs[0]->is_constant());
  EXPECT_EQ(got.graph->outputs[0]->type.to_string(), "float32[2]");
}

TEST(Import, BranchesMayUseOneNameAndTheMainGraphKeepsIts) {
  ModelBuilder m;
  add_input(m.graph(), "cond", {}, onnx::TensorProto::BOOL);
  add_input(m.graph(), "x", {2});
  auto& node = add_node(m.graph(), "If", {"cond"}, {"h"}, "choice");
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& body = add_graph(node, branch);
    add_node(body, "Relu", {"x"}, {"y"});
    add_output(body, "y");
  }
  add_node(m.graph(), "Neg", {"h"}, {"y"});
  add_output(m.graph(), "y");
  const ImportedModel got = m.load();
  EXPECT_EQ(got.graph->outputs[0]->name, "y");
  EXPECT_EQ(got.graph->outputs[0]->producer->op, "Neg");
}

TEST(Import, Loop) {
  ModelBuilder m;
  add_input(m.graph(), "n", {}, onnx::TensorProto::INT64);
  add_input(m.graph(), "x", {2});
  auto& node = add_node(m.graph(), "Loop", {"n", "", "x"}, {"last", "all"}, "loop");
  auto& body = add_graph(node, "body");
  add_input(body, "i", {}, onnx::TensorProto::INT64);
  add_input(body, "c", {}, onnx::TensorProto::BOOL);
  add_input(body, "state", {2});
  add_node(body, "Identity", {"c"}, {"c_out"});
  add_node(body, "Add", {"state", "x"}, {"next"});
  add_node(body, "Neg", {"next"}, {"item"});
  for (const char* name : {"c_out", "next", "item"}) add_output(body, name);
  add_output(m.graph(), "last");
  add_output(m.graph(), "all");
  const ImportedModel got = m.load();
  const Node& loop = node_of(*got.graph, "Loop");
  EXPECT_EQ(loop.input(1), nullptr);
  EXPECT_EQ(got.graph->outputs[0]->type.to_string(), "float32[2]");
  EXPECT_EQ(got.graph->outputs[1]->type.shape.rank(), 2);
  body.mutable_output()->RemoveLast();
  EXPECT_EQ(error_of([&] { m.load(); }).code(), Code::ARITY);
}

onnx::FunctionProto& add_function(ModelBuilder& m, const std::string& name, const Names& inputs, const Names& outputs) {
  auto* function = m.model.add_functions();
  function->set_domain("my");
  function->set_name(name);
  for (const auto& input : inputs) function->add_input(input);
  for (const auto& output : outputs) function->add_output(output);
  auto* opset = function->add_opset_import();
  opset->set_version(17);
  return *function;
}

TEST(Import, FunctionsAreInlinedWithTheirAttributes) {
  ModelBuilder m;
  m.import("my", 1);
  auto& inner = add_function(m, "leaky", {"a"}, {"b"});
  inner.add_attribute("slope");
  auto& relu = add_node(*inner.mutable_node(), "LeakyRelu", {"a"}, {"b"}, "act");
  add_attribute(relu, "alpha", onnx::AttributeProto::FLOAT).set_ref_attr_name("slope");
  auto& outer = add_function(m, "twice", {"a", "missing"}, {"b", "a"});
  auto& call = add_node(*outer.mutable_node(), "leaky", {"a"}, {"t"}, "one");
  call.set_domain("my");
  add_float(call, "slope", 0.25f);
  auto& again = add_node(*outer.mutable_node(), "leaky", {"t"}, {"b"}, "two");
  again.set_domain("my");
  add_input(m.graph(), "x", {2});
  auto& top = add_node(m.graph(), "twice", {"x"}, {"y", "same"}, "top");
  top.set_domain("my");
  add_output(m.graph(), "y");
  add_output(m.graph(), "same");
  const ImportedModel got = m.load();
  EXPECT_EQ(ops_of(*got.graph), (Names{"LeakyRelu", "LeakyRelu", "Identity"}));
  const Node& first = *got.graph->nodes().front();
  EXPECT_EQ(first.attrs.get_float("alpha", 0), 0.25f);
  EXPECT_EQ(first.origins, Names{"top/one/act"});
  const Node& second = **std::next(got.graph->nodes().begin());
  EXPECT_FALSE(second.attrs.has("alpha"));
  EXPECT_EQ(got.graph->outputs[0]->name, "y");
  EXPECT_EQ(got.graph->outputs[0]->producer, &second);
  EXPECT_EQ(got.graph->outputs[1]->name, "same");
}

TEST(Import, OverloadsAreToldApart) {
  ModelBuilder m;
  m.import("my", 1);
  for (const char* op : {"Relu", "Neg"}) {
    auto& function = add_function(m, "f", {"a"}, {"b"});
    function.set_overload(op);
    add_node(*function.mutable_node(), op, {"a"}, {"b"});
  }
  add_input(m.graph(), "x", {2});
  auto& call = add_node(m.graph(), "f", {"x"}, {"y"});
  call.set_domain("my");
  call.set_overload("Neg");
  add_output(m.graph(), "y");
  EXPECT_EQ(ops_of(*m.load().graph), Names{"Neg"});
}

TEST(Import, NodesMayComeInAnyOrder) {
  ModelBuilder m;
  add_input(m.graph(), "x", {2});
  add_node(m.graph(), "Relu", {"h"}, {"y"});
  add_node(m.graph(), "Neg", {"x"}, {"h"});
  add_output(m.graph(), "y");
  EXPECT_EQ(ops_of(*m.load().graph), (Names{"Neg", "Relu"}));
}

}  // namespace
}  // namespace deepjit

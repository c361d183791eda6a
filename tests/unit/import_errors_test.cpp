// Every way a model can be wrong ends in the right error, which names the node.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "import_test_util.h"

namespace deepjit {
namespace {

Error error_of_bytes(const std::string& bytes) {
  return error_of([&] { import_onnx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}); });
}

ModelBuilder good() {
  ModelBuilder m;
  add_input(m.graph(), "x", {2});
  set_floats(*m.graph().add_initializer(), "w", {2}, {1, 2});
  add_node(m.graph(), "Add", {"x", "w"}, {"y"}, "sum");
  add_output(m.graph(), "y");
  return m;
}

void expect(Code code, ModelBuilder& m, const std::vector<std::string>& words = {}) {
  const Error e = error_of([&] { m.load(); });
  EXPECT_EQ(code_name(e.code()), code_name(code)) << e.what();
  for (const std::string& word : words) EXPECT_NE(e.message().find(word), std::string::npos) << e.what();
}

TEST(ImportErrors, Bytes) {
  EXPECT_EQ(error_of_bytes("").code(), Code::PARSE);
  EXPECT_EQ(error_of_bytes("this is not a model").code(), Code::PARSE);
  EXPECT_EQ(error_of_bytes(onnx::ModelProto().SerializeAsString() + "\x08\x08").code(), Code::PARSE);
  const std::string bytes = good().model.SerializeAsString();
  EXPECT_EQ(error_of_bytes(bytes).code(), Code::OK);
  EXPECT_EQ(error_of_bytes(bytes.substr(0, bytes.size() / 2)).code(), Code::TRUNCATED);
}

TEST(ImportErrors, EveryPrefixOfAModelIsAnErrorOrAModel) {
  const std::string bytes = good().model.SerializeAsString();
  for (size_t n = 0; n < bytes.size(); ++n) {
    const Error e = error_of_bytes(bytes.substr(0, n));
    EXPECT_NE(e.code(), Code::OK) << n;
    EXPECT_NE(e.code(), Code::INTERNAL) << n;
  }
}

// A length-delimited protobuf field.
std::string field(int number, const std::string& payload) {
  std::string out;
  const auto varint = [&](uint64_t v) {
    for (; v > 127; v >>= 7) out += static_cast<char>((v & 127) | 128);
    out += static_cast<char>(v);
  };
  varint(static_cast<uint64_t>(number) << 3 | 2);
  varint(payload.size());
  return out + payload;
}

TEST(ImportErrors, DeepSubgraphs) {
  std::string graph = field(2, "leaf");
  for (int i = 0; i < 10'000; ++i) {
    graph = field(1, field(4, "If") + field(5, field(1, "then_branch") + field(6, graph) + "\xa0\x01\x05"));
  }
  EXPECT_EQ(error_of_bytes("\x08\x08" + field(8, "\x10\x11") + field(7, graph)).code(), Code::DEPTH);
}

TEST(ImportErrors, NestedLoopsAreBounded) {
  ModelBuilder m = good();
  onnx::GraphProto* graph = &m.graph();
  for (int i = 0; i < 12; ++i) {
    auto& body = add_graph(add_node(*graph, "Loop", {"", ""}, {"out" + std::to_string(i)}), "body");
    add_input(body, "i" + std::to_string(i), {}, onnx::TensorProto::INT64);
    add_input(body, "c" + std::to_string(i), {}, onnx::TensorProto::BOOL);
    add_output(body, "c" + std::to_string(i));
    add_output(body, "x");
    graph = &body;
  }
  expect(Code::DEPTH, m);
}

TEST(ImportErrors, Names) {
  ModelBuilder twice = good();
  set_floats(*twice.graph().add_initializer(), "w", {2}, {3, 4});
  expect(Code::DUPLICATE_NAME, twice, {"\"w\""});
  ModelBuilder writes = good();
  add_node(writes.graph(), "Relu", {"x"}, {"y"}, "second");
  expect(Code::DUPLICATE_NAME, writes, {"\"y\"", "second"});
  ModelBuilder ghost = good();
  add_node(ghost.graph(), "Add", {"x", "ghost"}, {"z"}, "reader");
  expect(Code::UNDEFINED_VALUE, ghost, {"node \"reader\" (Add): ", "\"ghost\""});
  ModelBuilder output = good();
  add_output(output.graph(), "nothing");
  expect(Code::UNDEFINED_VALUE, output, {"\"nothing\""});
  ModelBuilder utf8 = good();
  utf8.graph().mutable_node(0)->set_name("bad\xff");
  expect(Code::UTF8, utf8);
  ModelBuilder overlong = good();
  overlong.graph().mutable_node(0)->set_input(0, "\xc0\xaf");
  expect(Code::UTF8, overlong);
}

TEST(ImportErrors, Cycle) {
  ModelBuilder m = good();
  add_node(m.graph(), "Add", {"x", "q"}, {"p"}, "first");
  add_node(m.graph(), "Relu", {"p"}, {"q"}, "second");
  expect(Code::GRAPH_CYCLE, m, {"depends on its own output"});
}

TEST(ImportErrors, MissingOperatorsAreListedTogether) {
  ModelBuilder m = good();
  m.import("com.acme", 3);
  add_node(m.graph(), "Frob", {"x"}, {"a"}, "f1").set_domain("com.acme");
  add_node(m.graph(), "Frob", {"a"}, {"b"}, "f2").set_domain("com.acme");
  add_node(m.graph(), "Nonsense", {"b"}, {"c"}, "n1");
  add_node(m.graph(), "Gelu", {"x"}, {"d"}, "too_new");
  add_input(m.graph(), "cond", {}, onnx::TensorProto::BOOL);
  auto& node = add_node(m.graph(), "If", {"cond"}, {"e"}, "choice");
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& body = add_graph(node, branch);
    add_node(body, "Inner", {"x"}, {std::string(branch) + "y"}, "inside");
    add_output(body, std::string(branch) + "y");
  }
  expect(Code::UNSUPPORTED_OP, m,
         {"com.acme::Frob (version 3)", "\"f1\" and 1 more", "ai.onnx::Nonsense (version 17)", "ai.onnx::Gelu",
          "ai.onnx::Inner", "\"inside\""});
}

TEST(ImportErrors, OtherKindsOfValuesAreNamed) {
  const auto with_input = [](auto&& fill) {
    ModelBuilder m = good();
    auto* info = m.graph().add_input();
    info->set_name("value");
    fill(*info->mutable_type());
    return m;
  };
  auto map = with_input([](onnx::TypeProto& type) { type.mutable_map_type(); });
  expect(Code::UNSUPPORTED_OP, map, {"\"value\"", "a map"});
  auto nested = with_input(
      [](onnx::TypeProto& type) { type.mutable_sequence_type()->mutable_elem_type()->mutable_sequence_type(); });
  expect(Code::UNSUPPORTED_OP, nested, {"\"value\"", "a sequence inside of a sequence"});
  auto optional = with_input(
      [](onnx::TypeProto& type) { type.mutable_sequence_type()->mutable_elem_type()->mutable_optional_type(); });
  expect(Code::UNSUPPORTED_OP, optional, {"\"value\"", "an optional inside"});
  auto nothing = with_input([](onnx::TypeProto& type) { type.mutable_sequence_type(); });
  expect(Code::TYPE, nothing, {"\"value\""});
}

TEST(ImportErrors, Versions) {
  for (int64_t opset : {-1, 0, 27, 1000}) {
    ModelBuilder m(opset);
    add_input(m.graph(), "x", {2});
    add_node(m.graph(), "Relu", {"x"}, {"y"});
    add_output(m.graph(), "y");
    expect(Code::OPSET, m, {std::to_string(opset)});
  }
  ModelBuilder ir = good();
  ir.model.set_ir_version(99);
  expect(Code::OPSET, ir, {"99"});
  ModelBuilder none = good();
  none.model.clear_opset_import();
  expect(Code::OPSET, none);
}

TEST(ImportErrors, TensorData) {
  ModelBuilder raw = good();
  raw.graph().mutable_initializer(0)->set_raw_data("abc");
  expect(Code::TENSOR_DATA, raw, {"\"w\"", "3 bytes"});
  ModelBuilder few = good();
  few.graph().mutable_initializer(0)->set_dims(0, 1000);
  expect(Code::TENSOR_DATA, few);
  ModelBuilder huge = good();
  huge.graph().mutable_initializer(0)->set_dims(0, int64_t{1} << 40);
  expect(Code::TENSOR_DATA, huge);
  huge.graph().mutable_initializer(0)->add_dims(int64_t{1} << 40);
  expect(Code::SHAPE_OVERFLOW, huge);
  ModelBuilder negative = good();
  negative.graph().mutable_initializer(0)->set_dims(0, -2);
  expect(Code::TENSOR_DATA, negative);
  ModelBuilder type = good();
  type.graph().mutable_initializer(0)->set_data_type(onnx::TensorProto::COMPLEX64);
  expect(Code::TYPE, type, {"complex64"});
  ModelBuilder rank = good();
  for (int i = 0; i < 20; ++i) rank.graph().mutable_initializer(0)->add_dims(1);
  expect(Code::LIMIT, rank);
}

TEST(ImportErrors, DeclaredOutputs) {
  ModelBuilder type = good();
  set_info(*type.graph().mutable_output(0), "y", {2}, onnx::TensorProto::DOUBLE);
  expect(Code::TYPE, type, {"\"y\""});
  ModelBuilder shape = good();
  set_info(*shape.graph().mutable_output(0), "y", {3});
  expect(Code::SHAPE_MISMATCH, shape, {"\"y\""});
  ModelBuilder symbol = good();
  set_info(*symbol.graph().mutable_output(0), "y", {"N"});
  EXPECT_NO_THROW(symbol.load());
}

TEST(ImportErrors, Attributes) {
  ModelBuilder m = good();
  auto& node = add_node(m.graph(), "LeakyRelu", {"x"}, {"z"}, "act");
  add_attribute(node, "alpha", onnx::AttributeProto::FLOAT).set_i(3);
  expect(Code::ATTRIBUTE, m, {"node \"act\" (LeakyRelu): ", "alpha"});
  ModelBuilder body = good();
  add_input(body.graph(), "cond", {}, onnx::TensorProto::BOOL);
  add_node(body.graph(), "If", {"cond"}, {"z"}, "choice");
  expect(Code::ATTRIBUTE, body, {"then_branch"});
}

TEST(ImportErrors, ElementTypesThatAreMissing) {
  ModelBuilder m = good();
  add_int(add_node(m.graph(), "Cast", {"x"}, {"z"}, "cast"), "to", onnx::TensorProto::COMPLEX64);
  expect(Code::TYPE, m, {"node \"cast\" (Cast): ", "complex64"});
}

TEST(ImportErrors, FunctionsInARing) {
  ModelBuilder m = good();
  m.import("my", 1);
  for (int i = 0; i < 3; ++i) {
    auto* function = m.model.add_functions();
    function->set_domain("my");
    function->set_name("f" + std::to_string(i));
    function->add_input("a");
    function->add_output("b");
    add_node(*function->mutable_node(), "f" + std::to_string((i + 1) % 3), {"a"}, {"b"}).set_domain("my");
  }
  add_node(m.graph(), "f0", {"x"}, {"z"}, "call").set_domain("my");
  expect(Code::GRAPH_CYCLE, m, {"f0 -> f1 -> f2 -> f0"});
}

TEST(ImportErrors, FunctionsThatExplodeAreCut) {
  ModelBuilder m = good();
  m.import("my", 1);
  for (int i = 0; i < 40; ++i) {
    auto* function = m.model.add_functions();
    function->set_domain("my");
    function->set_name("f" + std::to_string(i));
    function->add_input("a");
    function->add_output("b");
    const std::string next = i == 39 ? "Relu" : "f" + std::to_string(i + 1);
    const std::string domain = i == 39 ? "" : "my";
    add_node(*function->mutable_node(), next, {"a"}, {"t"}, "l").set_domain(domain);
    add_node(*function->mutable_node(), next, {"t"}, {"b"}, "r").set_domain(domain);
    function->add_opset_import()->set_version(17);
  }
  add_node(m.graph(), "f0", {"x"}, {"z"}, "call").set_domain("my");
  ImportOptions options;
  options.max_nodes = 2000;
  EXPECT_EQ(error_of([&] { m.load(options); }).code(), Code::LIMIT);
}

// model/m.onnx with its weights in another file; model/w.bin holds them, secret lies outside.
class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "deepjit_import_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    top_ = name;
    std::filesystem::create_directories(top_ / "model" / "sub");
    const float values[] = {3, 4};
    for (const char* path : {"model/w.bin", "model/sub/w.bin", "secret"}) {
      std::ofstream(top_ / path, std::ios::binary).write(reinterpret_cast<const char*>(values), sizeof values);
    }
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  ImportedModel load(const std::string& location, const std::string& offset = "", const std::string& length = "",
                     int64_t dim = 2) {
    ModelBuilder m = good();
    auto* tensor = m.graph().mutable_initializer(0);
    tensor->clear_float_data();
    tensor->set_dims(0, dim);
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    const std::pair<std::string, std::string> entries[] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    for (const auto& [key, text] : entries) {
      if (text.empty()) continue;
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(text);
    }
    std::ofstream(top_ / "model" / "m.onnx", std::ios::binary) << m.model.SerializeAsString();
    return import_onnx_file((top_ / "model" / "m.onnx").string());
  }
  Code code_of(const std::string& location, const std::string& offset = "", const std::string& length = "",
               int64_t dim = 2) {
    return error_of([&] { load(location, offset, length, dim); }).code();
  }

  std::filesystem::path top_;
};

TEST_F(ExternalData, IsRead) {
  for (const char* location : {"w.bin", "sub/w.bin", "./w.bin"}) {
    const ImportedModel got = load(location, "0", "8");
    EXPECT_EQ(got.graph->nodes().front()->input(1)->constant.to_f64(), (std::vector<double>{3, 4})) << location;
  }
}

TEST_F(ExternalData, StaysBelowTheFolder) {
  std::filesystem::create_symlink(top_ / "secret", top_ / "model" / "link");
  std::filesystem::create_directory_symlink(top_, top_ / "model" / "up");
  std::filesystem::create_hard_link(top_ / "secret", top_ / "model" / "hard");
  ASSERT_EQ(mkfifo((top_ / "model" / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(code_of("../secret"), Code::EXTERNAL_PATH);
  EXPECT_EQ(code_of("sub/../../secret"), Code::EXTERNAL_PATH);
  EXPECT_EQ(code_of((top_ / "secret").string()), Code::EXTERNAL_PATH);
  EXPECT_EQ(code_of("up/secret"), Code::EXTERNAL_PATH);
  EXPECT_EQ(code_of(""), Code::EXTERNAL_PATH);
  EXPECT_EQ(code_of("link"), Code::EXTERNAL_NOT_REGULAR_FILE);
  EXPECT_EQ(code_of("hard"), Code::EXTERNAL_NOT_REGULAR_FILE);
  EXPECT_EQ(code_of("pipe"), Code::EXTERNAL_NOT_REGULAR_FILE);
  EXPECT_EQ(code_of("sub"), Code::EXTERNAL_NOT_REGULAR_FILE);
  EXPECT_EQ(code_of("absent"), Code::FILE_NOT_FOUND);
}

TEST_F(ExternalData, RangesAreChecked) {
  EXPECT_EQ(code_of("w.bin", "4"), Code::EXTERNAL_RANGE);
  EXPECT_EQ(code_of("w.bin", "4096"), Code::EXTERNAL_RANGE);
  EXPECT_EQ(code_of("w.bin", "-1"), Code::EXTERNAL_RANGE);
  EXPECT_EQ(code_of("w.bin", "99999999999999999999"), Code::EXTERNAL_RANGE);
  EXPECT_EQ(code_of("w.bin", "x"), Code::EXTERNAL_RANGE);
  EXPECT_EQ(code_of("w.bin", "0", "4"), Code::EXTERNAL_RANGE);
  EXPECT_EQ(code_of("w.bin", "0", "", int64_t{1} << 40), Code::EXTERNAL_RANGE);
  EXPECT_EQ(code_of("w.bin", "0", "", int64_t{1} << 62), Code::SHAPE_OVERFLOW);
}

TEST_F(ExternalData, BytesHaveNoFolder) {
  load("w.bin");
  std::ifstream file(top_ / "model" / "m.onnx", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(error_of_bytes(bytes).code(), Code::EXTERNAL_PATH);
}

TEST(ImportErrors, NoSuchFile) {
  EXPECT_EQ(error_of([] { import_onnx_file("/nonexistent/m.onnx"); }).code(), Code::FILE_NOT_FOUND);
}

}  // namespace
}  // namespace deepjit

// Every model of the fusion tests on a GPU, against the same model step by step on the CPU: in float32 where it has
// 16-bit floats, which kernels round only at their ends (docs/codegen.md). The models are files that export_cases.py
// wrote, with the ops of users in them: DEEPJIT_CASES names their folder. DEEPJIT_TEST_DEVICE picks another device than
// cuda; on the null device everything happens but the comparison.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/visit.h"
#include "compiler/build.h"
#include "compiler/option_text.h"
#include "import/user_ops/registry.h"
#include "ops/pointwise/cast.h"
#include "runtime/engine.h"

namespace deepjit {

namespace {

using Json = nlohmann::json;

std::string variable(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

std::string cases_folder() { return variable("DEEPJIT_CASES", ""); }
std::string device_name() { return variable("DEEPJIT_TEST_DEVICE", "cuda"); }

// Why no case can run here; "" when they can.
const std::string& why_skip() {
  static const std::string reason = [] {
    try {
      device::open(device_name());
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  }();
  return reason;
}

// The ops of users that the models have nodes of.
void register_ops_of_cases() {
  static const bool registered = [] {
    std::ifstream in(cases_folder() + "/ops.json");
    register_user_ops(std::string(std::istreambuf_iterator<char>(in), {}));
    return true;
  }();
  (void)registered;
}

double special(std::mt19937_64& random, bool narrow) {
  static const double wide[] = {0.0,  -0.0,  1.0,  -1.0,  0.5,    2.5, 1e-40,    -1e-40,
                                88.0, -88.0, 1e30, -1e30, 3.4e38, NAN, INFINITY, -INFINITY};
  static const double half[] = {0.0,  -0.0,  1.0, -1.0, 0.5, 2.5,      1e-7,      -1e-7,
                                11.0, -11.0, 6e4, -6e4, NAN, INFINITY, -INFINITY, 2.0};
  return (narrow ? half : wide)[random() % 16];
}

// Random values; `hard`: a third of the floats are special, and many are equal.
Tensor make_input(const TensorDesc& desc, bool hard, std::mt19937_64& random) {
  Tensor t(desc.dtype, desc.dims);
  std::normal_distribution<double> normal;
  if (desc.dtype == DType::BOOL) {
    for (int64_t i = 0; i < desc.count(); ++i) t.as<bool>()[i] = random() % 2 == 0;
    return t;
  }
  visit_numeric(desc.dtype, "test input", [&]<typename T>() {
    for (int64_t i = 0; i < desc.count(); ++i) {
      double value = normal(random);
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<double>(random() % 19) - (std::is_unsigned_v<T> ? 0 : 9);
      } else if (hard) {
        if (random() % 3 == 0) value = std::round(value);
        if (random() % 3 == 0) value = special(random, sizeof(T) == 2);
      }
      if constexpr (std::is_arithmetic_v<T>)
        t.as<T>()[i] = static_cast<T>(value);
      else
        t.as<T>()[i] = T(static_cast<float>(value));
    }
  });
  return t;
}

bool is_narrow(DType type) { return type == DType::FLOAT16 || type == DType::BFLOAT16; }

Tensor converted(const TensorView& in, DType to) {
  Tensor out(to, in.dims);
  cast_elements(in, out.view());
  return out;
}

// Neighbours among the 16-bit floats, or equal.
bool are_neighbours(const TensorView& a, const TensorView& b, size_t i) {
  const auto place = [i](const TensorView& view) {
    const int bits = view.as<uint16_t>()[i];
    return (bits & 0x8000) != 0 ? -(bits & 0x7fff) : bits;
  };
  return is_narrow(a.dtype) && std::abs(place(a) - place(b)) <= 1;
}

// How `got` differs, or "": relative to the largest value, or (own_scale) to each value and a tenth.
std::string difference(const TensorView& got, const TensorView& want, bool own_scale) {
  if (got.dtype != want.dtype || !(got.dims == want.dims)) return "another type or shape";
  const std::vector<double> g = to_f64(got);
  const std::vector<double> w = to_f64(want);
  const bool exact = !is_float(want.dtype);
  const double tolerance = exact ? 0 : dtype_size(want.dtype) == 2 ? 1e-3 : 1e-5;
  double scale = 1e-2;
  for (double x : w) {
    if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
  }
  for (size_t i = 0; i < w.size(); ++i) {
    const double allowed = tolerance * (own_scale ? std::abs(w[i]) + 0.1 : scale);
    const bool same = std::isfinite(w[i])
                          ? std::abs(g[i] - w[i]) <= allowed || (std::isfinite(g[i]) && are_neighbours(got, want, i))
                          : g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]));
    if (!same) return "element " + std::to_string(i) + ": " + std::to_string(g[i]) + ", not " + std::to_string(w[i]);
  }
  return "";
}

class GeneratedTest : public testing::Test {
 public:
  explicit GeneratedTest(Json row) : case_(std::move(row)) {}
  void TestBody() override;

 private:
  std::shared_ptr<const Engine> build_for(const std::string& device, std::vector<std::string>& dropped) const {
    BuildOptions options;
    options.device = device;
    options.device_only = device != "cpu";
    options.threads = 1;
    options.level = device == "cpu" ? 0 : case_.at("level").get<int>();
    options.tune = device != "cpu";
    for (const Json& pass : case_.at("disable")) options.disabled_passes.insert(pass.get<std::string>());
    for (const Json& text : case_.at("ranges")) {
      const auto [input, range] = parse_range(text.get<std::string>());
      add_range(input, range, options.ranges, options.more_ranges);
    }
    options.log = [&](const std::string& line) {
      if (line.find(" dropped: ") != std::string::npos) dropped.push_back(line);
    };
    const bool wide = device == "cpu" && case_.at("wide").get<bool>();
    const std::string path =
        cases_folder() + "/" + case_.at("model").get<std::string>() + (wide ? "_wide.onnx" : ".onnx");
    return std::make_shared<const Engine>(build_file(path, options).file.program, nullptr, device);
  }

  static std::vector<Tensor> inputs_of(const Program& program, const Json& dims, bool hard, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Tensor> inputs;
    for (const ProgramInput& input : program.inputs) {
      const TensorType& type = program.buffers[static_cast<size_t>(input.buffer)].type;
      TensorDesc desc{type.dtype, {}};
      for (const Dim& d : type.shape.dims()) {
        desc.dims.push_back(d.is_const() ? d.value() : dims.at(d.to_string()).get<int64_t>());
      }
      inputs.push_back(make_input(desc, hard, random));
    }
    return inputs;
  }

  void compare(Context& gpu, Context& cpu, const Json& dims, bool hard, uint64_t seed) const {
    const std::vector<Tensor> fed = inputs_of(gpu.engine().program(), dims, hard, seed);
    std::vector<Tensor> wide;
    std::vector<TensorView> inputs;
    std::vector<TensorView> wide_inputs;
    for (const Tensor& t : fed) {
      inputs.push_back(t.view());
      wide.push_back(is_narrow(t.dtype()) ? converted(t.view(), DType::FLOAT32) : t);
      wide_inputs.push_back(wide.back().view());
    }
    std::vector<TensorView> got;
    std::vector<TensorView> want;
    gpu.run(inputs, got);
    if (device::kind_of(device_name()) != "cuda") return;
    cpu.run(case_.at("wide").get<bool>() ? wide_inputs : inputs, want);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      const Tensor right = is_narrow(got[i].dtype) ? converted(want[i], got[i].dtype) : Tensor();
      const std::string text = difference(got[i], right.defined() ? right.view() : want[i], hard);
      EXPECT_EQ(text, "") << "output " << i << " at " << dims.dump() << (hard ? ", special values" : "");
    }
  }

  Json case_;
};

void GeneratedTest::TestBody() {
  if (!why_skip().empty()) GTEST_SKIP() << why_skip();
  register_ops_of_cases();
  if (const auto fault = case_.at("known_fault").get<std::string>(); !fault.empty()) GTEST_SKIP() << fault;
  std::vector<std::string> dropped;
  std::shared_ptr<const Engine> engine;
  try {
    engine = build_for(device_name(), dropped);
  } catch (const Error& e) {
    if (e.code() == Code::NO_DEVICE_KERNEL && case_.at("may_not_build").get<bool>()) GTEST_SKIP() << e.what();
    FAIL() << e.what();
  }
  for (const std::string& line : dropped) ADD_FAILURE() << line;
  std::vector<std::string> ignored;
  Context gpu(engine, 1);
  Context cpu(build_for("cpu", ignored), 1);
  uint64_t seed = 1;
  for (const Json& dims : case_.at("dims")) {
    for (int run = 0; run < 3; ++run) compare(gpu, cpu, dims, false, seed++);  // launched, captured, replayed
    if (case_.at("hard").get<bool>()) compare(gpu, cpu, dims, true, seed++);
  }
}

// One test a model.
[[maybe_unused]] const bool registered = [] {
  std::ifstream in(cases_folder() + "/cases.json");
  if (!in) return false;
  const Json all = Json::parse(in);
  for (const Json& row : all.at("cases")) {
    testing::RegisterTest("Generated", row.at("name").get<std::string>().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [row]() -> testing::Test* { return new GeneratedTest(row); });
  }
  return true;
}();

TEST(Cases, AreThere) { EXPECT_TRUE(registered) << "DEEPJIT_CASES names no folder with a cases.json"; }

}  // namespace

}  // namespace deepjit

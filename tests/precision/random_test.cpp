// Random small networks: in 16 bits they compute what they compute in float32, whatever stands beside what.
#include <random>

#include "../passes/pass_test_util.h"
#include "passes/pipeline.h"
#include "precision/autocast.h"

namespace deepjit {
namespace {

// Text of a network over images of [N,4,6,4]; each new value is of order 1.
class RandomNetwork {
 public:
  explicit RandomNetwork(unsigned seed) : random_(seed) {
    for (int i = 0; i < 12; ++i) grow();
    text_ = "graph @g(%x: float32[N,4,6,4], %z: float32[N,4,6,4]) -> (%y, " + pick() + ") {\n" + constants_ + text_ +
            "%y = Add(" + values_.back() + ", " + pick() + ")\n}";
  }
  const std::string& text() const { return text_; }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string pick() {
    const int last = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(below(2) == 0 ? last - 1 : below(last))];
  }
  std::string constant(const std::string& shape, const std::string& range) {
    const std::string name = "%k" + std::to_string(count_++);
    constants_ += name + " = constant float32" + shape + " random(" + std::to_string(count_) + range + ")\n";
    return name;
  }
  std::string add(const std::string& expression) {
    const std::string name = "%v" + std::to_string(count_++);
    text_ += name + " = " + expression + "\n";
    return name;
  }

  void grow() {
    const std::string x = pick();
    const std::string axes = "%axes";
    if (count_ == 0) constants_ += "%axes = constant int64[2] [2, 3]\n";
    values_.push_back(make(x, axes));
  }

  std::string make(const std::string& x, const std::string& axes) {
    switch (below(18)) {
      case 0:
      case 1:
      case 2:
        return add("Conv(" + x + ", " + constant("[4,4,3,3]", ", -0.25, 0.25") + ") {pads=[1,1,1,1]}");
      case 3:
        return add("Conv(" + x + ", " + constant("[4,1,3,3]", ", -0.5, 0.5") + ") {pads=[1,1,1,1], group=4}");
      case 4:
        return add("MatMul(" + x + ", " + constant("[4,4]", ", -0.5, 0.5") + ")");
      case 5:
        return add("MatMul(" + x + ", " + constant("[4,4]", ", -1e-7, 1e-7") + ")");
      case 6:
        return add("Relu(" + x + ")");
      case 7:
        return add("Tanh(" + add("Exp(" + add("Clip(" + x + ", %lo, %hi)") + ")") + ")");
      case 8:
        return add("Softmax(" + add("Where(%mask, " + x + ", %low)") + ") {axis=-1}");
      case 9:
        return add("LayerNormalization(" + x + ", " + constant("[4]", ", 0.5, 1") + ")");
      case 10:
        return add("Sub(" + x + ", " + add("ReduceMean(" + x + ", " + axes + ")") + ")");
      case 11: {
        const std::string sum = add("ReduceSum(" + add("Mul(" + x + ", " + x + ")") + ", " + axes + ")");
        return add("Div(" + x + ", " + add("Sqrt(" + add("Add(" + sum + ", %one)") + ")") + ")");
      }
      case 12:
        return add("MaxPool(" + x + ") {kernel_shape=[3,3], pads=[1,1,1,1]}");
      case 13:
        return add("Mul(" + x + ", " + add("Sigmoid(" + add("GlobalAveragePool(" + x + ")") + ")") + ")");
      case 14:
        return add("Transpose(" + add("Gelu(" + add("Transpose(" + x + ") {perm=[0,2,3,1]}") + ")") +
                   ") {perm=[0,3,1,2]}");
      case 15:
        return add("Tanh(" + add("Add(" + x + ", " + pick() + ")") + ")");
      case 16:
        return add("Mul(" + add("Sin(" + x + ")") + ", " + add("Sigmoid(" + pick() + ")") + ")");
      default: {
        const std::string both = add("Concat(" + x + ", " + pick() + ") {axis=1}");
        return add("Conv(" + both + ", " + constant("[4,8,1,1]", ", -0.3, 0.3") + ")");
      }
    }
  }

  std::mt19937 random_;
  int count_ = 0;
  std::vector<std::string> values_ = {"%x", "%z"};
  std::string constants_ =
      "%lo = constant float32[] [-2]\n%hi = constant float32[] [2]\n%one = constant float32[] [1]\n"
      "%low = constant float32[] [-3.4e38]\n%mask = constant bool[6,4] random(9)\n";
  std::string text_;
};

double largest_of(const Tensor& t) {
  double largest = 1e-3;
  for (double x : t.to_f64()) largest = std::max(largest, std::abs(x));
  return largest;
}

class RandomPrecision : public testing::TestWithParam<int> {};

TEST_P(RandomPrecision, ComputesTheSame) {
  const std::string text = RandomNetwork(static_cast<unsigned>(GetParam())).text();
  SCOPED_TRACE(text);
  const auto original = parse_graph(text);
  for (const auto& [type, allowed] : {std::pair{DType::FLOAT16, 1e-2}, std::pair{DType::BFLOAT16, 8e-2}}) {
    for (int level : {0, 2, 3}) {
      const auto graph = parse_graph(text);
      PassOptions options;
      options.level = level;
      options.verify = true;
      AutocastOptions autocast_options;
      autocast_options.type = type;
      run_pipeline(*graph, options, {{"autocast", "", [&](Graph& g) { return autocast(g, autocast_options); }}});
      const std::vector<Tensor> inputs = random_inputs(*original, 5);
      const std::vector<Tensor> expected = eval_graph(*original, inputs);
      const std::vector<Tensor> actual = eval_graph(*graph, inputs);
      expect_same_types(*original, *graph);
      for (size_t i = 0; i < expected.size(); ++i) {
        const std::vector<double> x = expected[i].to_f64();
        const std::vector<double> y = actual[i].to_f64();
        double error = 0;
        for (size_t j = 0; j < x.size(); ++j) error = std::max(error, std::abs(x[j] - y[j]));
        EXPECT_LE(error / largest_of(expected[i]), allowed)
            << dtype_name(type) << " level " << level << " output " << i << "\n"
            << print_graph(*graph);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, RandomPrecision, testing::Range(0, 60));

}  // namespace
}  // namespace deepjit

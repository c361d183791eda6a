// What to feed a model: `-i NAME=...` and `--shapes NAME=...` of the command line, turned into tensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "program/program.h"

namespace deepjit::cli {

struct InputSpec {
  enum class Kind { RANDOM, FILL, FILE } kind = Kind::RANDOM;
  std::string name;
  uint64_t seed = 0;
  double fill = 0;
  Tensor tensor;  // of a FILE
};

constexpr const char* kInputDoc =
    "what to feed an input: NAME=FILE.npy, NAME=random:SEED, NAME=zeros, NAME=ones or NAME=value:V; repeatable";
constexpr const char* kShapesDoc = "the shape of an input, such as x=1x3x224x224; repeatable";

// Parses NAME=FILE.npy and so on, and reads the files. Throws ARGUMENT, FILE_NOT_FOUND.
std::vector<InputSpec> parse_inputs(const std::vector<std::string>& texts);
// Parses NAME=1x3x224x224.
std::map<std::string, Dims> parse_shapes(const std::vector<std::string>& texts);

// The shapes that `specs` and `shapes` fix, by input name. Throws ARGUMENT when they disagree.
std::map<std::string, Dims> fixed_shapes(const std::vector<InputSpec>& specs,
                                         const std::map<std::string, Dims>& shapes);

// Throws INPUT_NAME for a shape or spec of an input that is not among `names`.
void check_input_names(const std::vector<std::string>& names, const std::vector<InputSpec>& specs,
                       const std::map<std::string, Dims>& shapes);

// The concrete shape of every input: as fixed, else the optimum of the range that holds these, else the model's own
// with 1 for each unknown dimension. A named dimension has one value over all inputs.
std::vector<TensorDesc> input_descs(const Program& program, const std::map<std::string, Dims>& fixed);

// One tensor an input, in the program's order; undefined where an input with a default is not named.
// `fill` makes random data for inputs that nobody named, otherwise they throw INPUT_NAME.
std::vector<Tensor> make_inputs(const Program& program, const std::vector<InputSpec>& specs,
                                const std::map<std::string, Dims>& shapes, bool fill);

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors);
// "x=1x3x224x224" of the tensors that are fed.
std::map<std::string, std::string> shape_texts(const Program& program, const std::vector<Tensor>& inputs);
std::string shape_text(const Dims& dims);  // "1x3x224x224"

}  // namespace deepjit::cli

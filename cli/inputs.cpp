#include "cli/inputs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <random>

#include "base/small_types.h"
#include "cli/npy.h"
#include "compiler/build.h"
#include "compiler/option_text.h"
#include "ops/sequence/sequence.h"
#include "program/ranges.h"

namespace deepjit::cli {

namespace {

bool digits(const std::string& text) {
  return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
}

// Whether `value` means generated data; fills `spec`.
bool generated(const std::string& value, InputSpec& spec) {
  using Kind = InputSpec::Kind;
  if (value == "zeros" || value == "ones") {
    spec.kind = Kind::FILL;
    spec.fill = value == "ones" ? 1 : 0;
    return true;
  }
  if (value.rfind("value:", 0) == 0) {
    const std::string number = value.substr(6);
    char* end = nullptr;
    spec.kind = Kind::FILL;
    spec.fill = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0' || std::abs(spec.fill) >= 0x1p63) {
      throw Error(Code::ARGUMENT, "\"" + value + "\" needs a number", "write it like value:0.5");
    }
    return true;
  }
  if (value == "random") return true;
  if (value.rfind("random:", 0) != 0) return false;
  if (!digits(value.substr(7))) {
    throw Error(Code::ARGUMENT, "\"" + value + "\" needs a whole number as seed", "write it like random:1");
  }
  spec.seed = std::stoull(value.substr(7));
  return true;
}

InputSpec parse_input(const std::string& text) {
  // A name or a path may hold '=': the first split that gives known data or a file that exists counts.
  std::error_code ignored;
  for (size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
    InputSpec spec;
    spec.name = text.substr(0, at);
    if (spec.name.empty()) continue;
    if (generated(text.substr(at + 1), spec)) return spec;
    if (!std::filesystem::exists(text.substr(at + 1), ignored)) continue;
    spec.kind = InputSpec::Kind::FILE;
    spec.tensor = read_npy(text.substr(at + 1));
    return spec;
  }
  const size_t at = text.find('=');
  if (at == 0 || at == std::string::npos) {
    throw Error(Code::ARGUMENT, "input \"" + text + "\" is not understood",
                "write NAME=FILE.npy, NAME=random:SEED, NAME=zeros, NAME=ones or NAME=value:V");
  }
  throw Error(Code::FILE_NOT_FOUND,
              "cannot open \"" + text.substr(at + 1) + "\" for input \"" + text.substr(0, at) + "\"",
              "give a .npy file, random:SEED, zeros, ones or value:V");
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // In (0, 1].
  double uniform() { return (static_cast<double>(engine_() >> 11) + 1) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }

 private:
  std::mt19937_64 engine_;
};

// Whole numbers stay small where they are likely to be indices; bytes use their whole width.
int64_t random_integer(DType dtype, Random& random) {
  switch (dtype) {
    case DType::UINT8:
      return random.below(256);
    case DType::INT8:
      return random.below(256) - 128;
    case DType::BOOL:
      return random.below(2);
    default:
      break;
  }
  if (!is_packed(dtype)) return random.below(10);
  const IntegerRange range = integer_range(dtype);
  return range.low + random.below(range.high - range.low + 1);
}

void set_element(const Tensor& t, int64_t i, double value) {
  switch (t.dtype()) {
    case DType::FLOAT32:
      t.as<float>()[i] = static_cast<float>(value);
      return;
    case DType::FLOAT64:
      t.as<double>()[i] = value;
      return;
    case DType::FLOAT16:
      t.as<float16>()[i] = float16(static_cast<float>(value));
      return;
    case DType::BFLOAT16:
      t.as<bfloat16>()[i] = bfloat16(static_cast<float>(value));
      return;
    case DType::STRING:
      t.as<std::string>()[i] = std::to_string(static_cast<int64_t>(value));
      return;
    default:
      break;
  }
  if (is_float(t.dtype())) {
    t.as<uint8_t>()[i] = float_to_small_float(t.dtype(), static_cast<float>(value), true);
    return;
  }
  // Little endian: the low bytes of an int64 are the element.
  const auto whole = static_cast<int64_t>(value);
  const size_t size = dtype_size(t.dtype());
  std::memcpy(t.as<char>() + static_cast<size_t>(i) * size, &whole, size);
}

Tensor generate(const TensorDesc& desc, const InputSpec& spec) {
  if (is_collection(desc.dtype)) return Tensor(desc.dtype, {0});
  Tensor t(desc.dtype, desc.dims);
  Random random(spec.seed);
  for (int64_t i = 0; i < t.count(); ++i) {
    double value = spec.fill;
    if (spec.kind == InputSpec::Kind::RANDOM) {
      value = is_float(desc.dtype) ? random.normal() : static_cast<double>(random_integer(desc.dtype, random));
    }
    set_element(t, i, value);
  }
  return t;
}

}  // namespace

std::vector<InputSpec> parse_inputs(const std::vector<std::string>& texts) {
  std::vector<InputSpec> specs;
  for (const std::string& text : texts) {
    specs.push_back(parse_input(text));
    for (size_t i = 0; i + 1 < specs.size(); ++i) {
      if (specs[i].name == specs.back().name) {
        throw Error(Code::ARGUMENT, "input \"" + specs[i].name + "\" is given twice", "give each input once");
      }
    }
  }
  return specs;
}

std::map<std::string, Dims> parse_shapes(const std::vector<std::string>& texts) {
  std::map<std::string, Dims> shapes;
  for (const std::string& text : texts) {
    if (text.find(':', std::min(text.rfind('='), text.size())) != std::string::npos) {
      throw Error(Code::ARGUMENT, "\"" + text + "\" is a range, here one shape is needed",
                  "write it like x=1x3x224x224");
    }
    const auto [name, range] = parse_range(text);
    shapes[name] = range.opt;
  }
  return shapes;
}

std::map<std::string, Dims> fixed_shapes(const std::vector<InputSpec>& specs,
                                         const std::map<std::string, Dims>& shapes) {
  std::map<std::string, Dims> fixed = shapes;
  for (const InputSpec& spec : specs) {
    if (spec.kind != InputSpec::Kind::FILE) continue;
    const auto [it, fresh] = fixed.emplace(spec.name, spec.tensor.dims());
    if (fresh || it->second == spec.tensor.dims()) continue;
    throw Error(Code::ARGUMENT, "input \"" + spec.name + "\": --shapes says " + it->second.to_string() +
                                    ", its file has " + spec.tensor.dims().to_string());
  }
  return fixed;
}

void check_input_names(const std::vector<std::string>& names, const std::vector<InputSpec>& specs,
                       const std::map<std::string, Dims>& shapes) {
  auto check = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    std::string known;
    for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
    throw Error(Code::INPUT_NAME, "the model has no input \"" + name + "\"",
                known.empty() ? "the model has no inputs" : "the inputs are " + known);
  };
  for (const InputSpec& spec : specs) check(spec.name);
  for (const auto& [name, dims] : shapes) check(name);
}

std::vector<TensorDesc> input_descs(const Program& program, const std::map<std::string, Dims>& fixed) {
  std::map<std::string, int64_t> symbols;
  auto learn = [&](const TensorType& type, const Dims& dims) {
    if (!type.shape.ranked() || type.shape.rank() != dims.rank()) return;
    for (int i = 0; i < dims.rank(); ++i) {
      if (type.shape[i].is_symbol()) symbols.emplace(type.shape[i].to_string(), dims[i]);
    }
  };
  auto type_of = [&](const ProgramInput& input) -> const TensorType& {
    return program.buffers[static_cast<size_t>(input.buffer)].type;
  };
  for (const ProgramInput& input : program.inputs) {
    if (auto it = fixed.find(input.name); it != fixed.end()) learn(type_of(input), it->second);
  }
  const Program* in = program_at(program, told_shapes(program, fixed));
  for (const ProgramInput& input : (in == nullptr ? program : *in).inputs) {
    if (input.has_range && !fixed.count(input.name)) learn(type_of(input), input.range.opt);
  }
  std::vector<TensorDesc> descs;
  for (const ProgramInput& input : program.inputs) {
    const TensorType& type = type_of(input);
    TensorDesc desc{type.dtype, {}};
    if (auto it = fixed.find(input.name); it != fixed.end()) {
      desc.dims = it->second;
    } else if (type.shape.ranked()) {
      for (const Dim& d : type.shape.dims()) {
        const auto it = symbols.find(d.to_string());
        desc.dims.push_back(d.is_const() ? d.value() : it != symbols.end() ? it->second : 1);
      }
    }
    descs.push_back(desc);
  }
  return descs;
}

std::vector<Tensor> make_inputs(const Program& program, const std::vector<InputSpec>& specs,
                                const std::map<std::string, Dims>& shapes, bool fill) {
  std::vector<std::string> names;
  for (const ProgramInput& input : program.inputs) names.push_back(input.name);
  check_input_names(names, specs, shapes);
  const std::vector<TensorDesc> descs = input_descs(program, fixed_shapes(specs, shapes));
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const InputSpec& s) { return s.name == names[i]; });
    if (spec == specs.end()) {
      const bool has_default = program.inputs[i].default_value.defined();
      if (!fill && !has_default && !is_collection(descs[i].dtype)) {
        throw Error(Code::INPUT_NAME, "input \"" + names[i] + "\" is missing",
                    "add -i " + names[i] + "=FILE.npy, or -i " + names[i] + "=random:1");
      }
      InputSpec random;
      random.seed = i;
      tensors.push_back(has_default ? Tensor() : generate(descs[i], random));
    } else if (is_collection(descs[i].dtype)) {
      throw Error(Code::ARGUMENT,
                  "input \"" + names[i] + "\" is a " + std::string(dtype_name(descs[i].dtype)) +
                      ", the command line feeds it empty only",
                  "leave it out, or use the Python or C++ interface");
    } else if (spec->kind == InputSpec::Kind::FILE) {
      tensors.push_back(convert_for(spec->tensor, descs[i].dtype));
    } else {
      tensors.push_back(generate(descs[i], *spec));
    }
  }
  return tensors;
}

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor& t : tensors) views.push_back(t.view());
  return views;
}

std::string shape_text(const Dims& dims) {
  std::string text;
  for (int64_t d : dims) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

std::map<std::string, std::string> shape_texts(const Program& program, const std::vector<Tensor>& inputs) {
  std::map<std::string, std::string> texts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) texts[program.inputs[i].name] = shape_text(inputs[i].dims());
  }
  return texts;
}

}  // namespace deepjit::cli

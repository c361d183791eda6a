#include "doctor/feed.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace deepjit::doctor {

namespace {

// The traffic's shapes in place of the guesses, and the sizes that follow from them.
void take_traffic(const Program& program, const std::map<std::string, Dims>& entry, InputShapes& shapes) {
  std::map<std::string, int64_t> sizes;
  const auto type_of = [&](size_t i) -> const Shape& {
    return program.buffers[static_cast<size_t>(program.inputs[i].buffer)].type.shape;
  };
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto found = entry.find(program.inputs[i].name);
    if (found == entry.end()) continue;
    shapes[i].dims = found->second;
    for (int k = 0; type_of(i).ranked() && k < std::min(type_of(i).rank(), found->second.rank()); ++k) {
      sizes.emplace(type_of(i)[k].to_string(), found->second[k]);
    }
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (entry.count(program.inputs[i].name) != 0 || !type_of(i).ranked()) continue;
    for (int k = 0; k < shapes[i].dims.rank(); ++k) {
      const auto found = sizes.find(type_of(i)[k].to_string());
      if (!type_of(i)[k].is_const() && found != sizes.end()) shapes[i].dims[k] = found->second;
    }
  }
}

// An integer of one element is often a choice (a sampling rate, a mode) that the model compares with its constants.
std::vector<std::optional<int64_t>> numbers_to_try(const Program& program, const InputShapes& shapes) {
  std::vector<std::optional<int64_t>> numbers = {std::nullopt};
  const bool any = std::any_of(shapes.begin(), shapes.end(),
                               [](const TensorDesc& d) { return is_integer(d.dtype) && d.count() == 1; });
  for (const Buffer& buffer : program.buffers) {
    const Tensor& t = buffer.constant;
    if (!any || !buffer.is_constant || !t.defined() || t.dtype() != DType::INT64 || t.count() != 1) continue;
    const std::optional<int64_t> value = t.to_i64()[0];
    if (*value > 1 && numbers.size() < 16 && std::find(numbers.begin(), numbers.end(), value) == numbers.end()) {
      numbers.push_back(value);
    }
  }
  return numbers;
}

std::vector<Trial> trials_for(const Program& program, const Options& options) {
  bool guessed = false;
  std::vector<InputShapes> shapes = candidate_shapes(program, Which::OPT, &guessed);
  std::vector<InputShapes> all;
  for (const auto& entry : options.traffic) {
    for (InputShapes one : shapes) {
      take_traffic(program, entry, one);
      all.push_back(one);
    }
  }
  all.insert(all.end(), shapes.begin(), shapes.end());
  std::vector<Trial> trials;
  for (const InputShapes& one : all) {
    for (const auto& number : numbers_to_try(program, one)) trials.push_back({one, number});
  }
  return trials;
}

Tensor random_tensor(const TensorDesc& desc, const std::optional<int64_t>& number, std::mt19937& random) {
  Tensor t(desc.dtype, desc.dims);
  std::normal_distribution<float> normal(0, 1);
  for (int64_t i = 0; i < t.count(); ++i) {
    switch (desc.dtype) {
      case DType::FLOAT32:
        t.as<float>()[i] = normal(random);
        break;
      case DType::FLOAT64:
        t.as<double>()[i] = static_cast<double>(normal(random));
        break;
      case DType::FLOAT16:
        t.as<float16>()[i] = float16(normal(random));
        break;
      case DType::BFLOAT16:
        t.as<bfloat16>()[i] = bfloat16(normal(random));
        break;
      default: {
        if (is_object(desc.dtype) || (is_float(desc.dtype) && dtype_size(desc.dtype) < 2)) {
          throw Error(Code::TYPE, "inputs of " + std::string(dtype_name(desc.dtype)) + " cannot be made up");
        }
        // 0 and 1 are an index, a token or a mask anywhere.
        uint64_t value = random() % 2;
        if (number && t.count() == 1 && desc.dtype != DType::BOOL) value = static_cast<uint64_t>(*number);
        const size_t size = dtype_size(desc.dtype);
        std::memcpy(t.as<char>() + static_cast<size_t>(i) * size, &value, size);
      }
    }
  }
  return t;
}

}  // namespace

std::vector<Tensor> make_inputs(const Program& program, const Trial& trial, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < trial.shapes.size(); ++i) {
    // One with a default keeps it.
    const bool fed = !program.inputs[i].default_value.defined();
    inputs.push_back(fed ? random_tensor(trial.shapes[i], trial.number, random) : Tensor());
  }
  return inputs;
}

std::map<std::string, Tensor> run_once(const std::shared_ptr<const Engine>& engine, const Program& order,
                                       const std::vector<Tensor>& inputs) {
  const Program& program = engine->program();
  std::vector<TensorView> views;
  for (const ProgramInput& wanted : program.inputs) {
    TensorView view;
    for (size_t i = 0; i < order.inputs.size(); ++i) {
      if (order.inputs[i].name == wanted.name) view = inputs[i].view();
    }
    views.push_back(view);
  }
  Context context(engine);
  std::vector<TensorView> results;
  context.run(views, results);
  std::map<std::string, Tensor> out;
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor copy(results[i].dtype, results[i].dims);
    if (is_object(copy.dtype())) throw Error(Code::TYPE, "outputs that are no numbers cannot be compared");
    if (copy.bytes() > 0) std::memcpy(copy.as<char>(), results[i].data, static_cast<size_t>(copy.bytes()));
    out[program.outputs[i].name] = std::move(copy);
  }
  return out;
}

std::vector<Trial> working_trials(const std::shared_ptr<const Engine>& engine, const Options& options) {
  constexpr size_t kMost = 4;
  const Program& program = engine->program();
  std::vector<Trial> working;
  std::optional<Error> failure;
  for (const Trial& trial : trials_for(program, options)) {
    const bool known =
        std::any_of(working.begin(), working.end(), [&](const Trial& t) { return t.number == trial.number; });
    if (known || working.size() == kMost) continue;
    try {
      run_once(engine, program, make_inputs(program, trial, 1));
      working.push_back(trial);
    } catch (const Error& e) {
      if (!failure) failure = e;
    }
  }
  if (!working.empty()) return working;
  if (!failure) failure = Error(Code::ARGUMENT, "no shapes to try it with");
  throw failure->with_prefix("the exported model runs on no made-up inputs, --traffic may help: ");
}

std::string trial_text(const Program& program, const Trial& trial) {
  std::string text;
  for (size_t i = 0; i < trial.shapes.size(); ++i) {
    text += (i ? ", " : "") + program.inputs[i].name + "=" + trial.shapes[i].dims.to_string();
    const bool chosen = trial.number && is_integer(trial.shapes[i].dtype) && trial.shapes[i].count() == 1;
    if (chosen) text += " of " + std::to_string(*trial.number);
  }
  return text;
}

}  // namespace deepjit::doctor

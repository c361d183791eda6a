#include "runtime/control.h"

#include <algorithm>

#include "base/limits.h"
#include "ops/common.h"
#include "ops/scalar.h"

namespace deepjit {

namespace {

TensorView view_of(const Binding& binding, int32_t buffer) {
  const Slot& slot = binding.slots[static_cast<size_t>(buffer)];
  return {slot.desc.dtype, slot.desc.dims, slot.data};
}

bool read_bool(const TensorView& view) {
  if (view.count() != 1) throw Error(Code::RUN_VALUE, "a condition must have one element");
  return *view.as<uint8_t>() != 0;
}

// One control step at work: finds or makes the binding of a block for the shapes at hand, and runs it.
class Body {
 public:
  Body(const ProgramInfo& info, Binding& outer, BoundStep& bound, int32_t block, Observer* observer)
      : info_(info), outer_(outer), control_(*bound.control), block_(block), observer_(observer) {}

  const Block& block() const { return info_.program->blocks[static_cast<size_t>(block_)]; }

  // Runs the block on `inputs`; outputs stay valid until it runs again.
  std::vector<TensorView> run(const std::vector<TensorView>& inputs) {
    Binding& binding = bound_for(inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      binding.slots[static_cast<size_t>(block().inputs[i])] = {inputs[i].data, inputs[i].desc()};
    }
    for (int32_t buffer : imports()) {
      if (binding.known.count(buffer) == 0) {
        binding.slots[static_cast<size_t>(buffer)] = outer_.slots[static_cast<size_t>(buffer)];
      }
    }
    for (const BoundOutput& output : binding.outputs) {
      if (output.dynamic) continue;
      void* data = binding.owned[output.root].ensure(binding.slots[static_cast<size_t>(output.slot)].desc);
      binding.slots[static_cast<size_t>(output.root)].data = data;
    }
    execute(info_, binding, static_cast<std::byte*>(binding.arena.data()) + binding.arena_bytes, observer_);
    std::vector<TensorView> outputs;
    for (const BoundOutput& output : binding.outputs) {
      TensorView view = view_of(binding, output.slot);
      view.data = binding.slots[static_cast<size_t>(output.root)].data;
      outputs.push_back(view);
    }
    return outputs;
  }

  // The type of output `k` were the block run on inputs like these, which need no data. Dims that only running would
  // tell are what the build knew of them, or 0.
  TensorDesc output_desc(const std::vector<TensorView>& inputs, size_t k) {
    const TensorType& type = info_.program->buffers[static_cast<size_t>(block().outputs[k])].type;
    try {
      const Binding& binding = bound_for(inputs);
      const BoundOutput& output = binding.outputs[k];
      if (!output.dynamic) return binding.slots[static_cast<size_t>(output.slot)].desc;
    } catch (const Error&) {
      // A block that does not take these shapes and is not run either is no error.
    }
    TensorDesc desc{type.dtype, {}};
    for (int i = 0; type.shape.ranked() && i < type.shape.rank(); ++i) {
      desc.dims.push_back(type.shape[i].is_const() ? type.shape[i].value() : 0);
    }
    return desc;
  }

 private:
  const std::vector<int32_t>& imports() const { return info_.imports[static_cast<size_t>(block_)]; }

  Binding& bound_for(const std::vector<TensorView>& inputs) {
    std::vector<TensorDesc> key;
    for (const TensorView& view : inputs) key.push_back(binding_key(view));
    for (int32_t buffer : imports()) key.push_back(binding_key(view_of(outer_, buffer)));
    for (ControlState::Bound& candidate : control_.bound) {
      if (candidate.block == block_ && candidate.key == key) return *candidate.binding;
    }
    BindRequest request;
    request.block = block_;
    request.threads = outer_.threads;
    for (size_t i = 0; i < inputs.size(); ++i) request.inputs.emplace_back(block().inputs[i], key[i]);
    for (size_t i = 0; i < imports().size(); ++i) {
      const int32_t buffer = imports()[i];
      if (auto it = outer_.known.find(buffer); it != outer_.known.end())
        request.known[buffer] = it->second;
      else
        request.inputs.emplace_back(buffer, key[inputs.size() + i]);
    }
    if (control_.bound.size() >= static_cast<size_t>(limits::body_bindings))
      control_.bound.erase(control_.bound.begin());
    control_.bound.push_back({block_, std::move(key), bind(info_, request)});
    Binding& binding = *control_.bound.back().binding;
    place(binding, binding.arena.ensure(binding.arena_bytes + binding.scratch_bytes));
    return binding;
  }

  const ProgramInfo& info_;
  Binding& outer_;
  ControlState& control_;
  int32_t block_;
  Observer* observer_;
};

// Copies `view` into memory that the step owns.
void store(Binding& outer, ValueMemory& memory, int32_t buffer, const TensorView& view) {
  void* data = memory.ensure(view.desc());
  copy_elements(view, {view.dtype, view.dims, data});
  if (buffer >= 0) outer.slots[static_cast<size_t>(buffer)] = {data, view.desc()};
}

// Calls f<T>(n): values of this type are copied as T, n of them an element.
template <typename F>
void visit_units(DType dtype, F&& f) {
  if (dtype == DType::STRING) return f.template operator()<std::string>(int64_t{1});
  f.template operator()<std::byte>(static_cast<int64_t>(dtype_size(dtype)));
}

// Values stacked along a new axis, one an iteration.
class Stack {
 public:
  void push(const TensorView& item) {
    if (count_ == 0) desc_ = item.desc();
    if (!(desc_ == item.desc())) {
      throw Error(Code::SHAPE_MISMATCH,
                  "a scan output changes shape from " + desc_.dims.to_string() + " to " + item.dims.to_string());
    }
    visit_units(item.dtype, [&]<typename T>(int64_t units) {
      items<T>().insert(items<T>().end(), item.as<T>(), item.as<T>() + item.count() * units);
    });
    ++count_;
  }

  // What an item is like, for a stack that stays empty.
  void expect(const TensorDesc& item) { desc_ = item; }
  int item_rank() const { return desc_.dims.rank(); }

  // Writes the items to the output buffer.
  void finish(Binding& outer, ValueMemory& memory, int32_t buffer, int axis, bool reverse) {
    if (buffer < 0) return;
    const TensorDesc& item = desc_;
    TensorDesc full = item;
    full.dims.insert(axis, count_);
    void* data = memory.ensure(full);
    outer.slots[static_cast<size_t>(buffer)] = {data, full};
    int64_t before = 1;
    for (int i = 0; i < axis; ++i) before *= item.dims[i];
    if (count_ == 0 || before == 0) return;
    visit_units(item.dtype, [&]<typename T>(int64_t units) {
      const int64_t chunk = item.count() * units / before;
      const T* from = items<T>().data();
      for (int64_t k = 0; k < count_; ++k) {
        const int64_t source = reverse ? count_ - 1 - k : k;
        for (int64_t b = 0; b < before; ++b) {
          std::copy_n(from + (source * before + b) * chunk, chunk, static_cast<T*>(data) + (b * count_ + k) * chunk);
        }
      }
    });
  }

 private:
  template <typename T>
  std::vector<T>& items() {
    if constexpr (std::is_same_v<T, std::string>) {
      return strings_;
    } else {
      return bytes_;
    }
  }

  TensorDesc desc_;
  int64_t count_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<std::string> strings_;
};

void execute_if(const ProgramInfo& info, Binding& outer, BoundStep& bound, Observer* observer) {
  const bool taken = read_bool(view_of(outer, bound.inputs[0]));
  Body body(info, outer, bound, bound.step->blocks[taken ? 0 : 1], observer);
  const std::vector<TensorView> results = body.run({});
  bound.control->memory.resize(results.size());
  for (size_t i = 0; i < bound.outputs.size(); ++i) {
    if (bound.outputs[i] >= 0) store(outer, bound.control->memory[i], bound.outputs[i], results[i]);
  }
}

void execute_loop(const ProgramInfo& info, Binding& outer, BoundStep& bound, Observer* observer) {
  Body body(info, outer, bound, bound.step->blocks[0], observer);
  const size_t carried = body.block().inputs.size() - 2;
  const size_t stacked = body.block().outputs.size() - 1 - carried;
  std::vector<ValueMemory>& memory = bound.control->memory;
  memory.resize(carried + stacked);

  const int64_t trips =
      bound.inputs[0] < 0 ? INT64_MAX : first_of(to_i64(view_of(outer, bound.inputs[0])), "the trip count of a Loop");
  bool condition = bound.inputs[1] < 0 || read_bool(view_of(outer, bound.inputs[1]));
  std::vector<TensorView> values(carried + 2);
  for (size_t i = 0; i < carried; ++i) {
    values[i + 2] = view_of(outer, bound.inputs[i + 2]);
    store(outer, memory[i], -1, values[i + 2]);
    values[i + 2].data = memory[i].data();
  }
  std::vector<Stack> stacks(stacked);
  int64_t iteration = 0;
  values[0] = {DType::INT64, {}, &iteration};
  values[1] = {DType::BOOL, {}, &condition};
  for (size_t i = 0; i < stacked && (trips <= 0 || !condition); ++i) {
    stacks[i].expect(body.output_desc(values, 1 + carried + i));
  }
  for (; iteration < trips && condition; ++iteration) {
    const std::vector<TensorView> results = body.run(values);
    condition = read_bool(results[0]);
    for (size_t i = 0; i < carried; ++i) {
      values[i + 2] = results[i + 1];
      store(outer, memory[i], -1, results[i + 1]);
      values[i + 2].data = memory[i].data();
    }
    for (size_t i = 0; i < stacked; ++i) stacks[i].push(results[1 + carried + i]);
  }
  for (size_t i = 0; i < bound.outputs.size(); ++i) {
    const int32_t buffer = bound.outputs[i];
    if (i >= carried) {
      stacks[i - carried].finish(outer, memory[i], buffer, 0, false);
    } else if (buffer >= 0) {
      outer.slots[static_cast<size_t>(buffer)] = {values[i + 2].data, values[i + 2].desc()};
    }
  }
}

// The slice `index` along `axis` of `view`, copied to `memory`.
TensorView take_slice(const TensorView& view, int axis, int64_t index, ValueMemory& memory) {
  TensorView item{view.dtype, view.dims, nullptr};
  item.dims.erase(axis);
  int64_t before = 1;
  for (int i = 0; i < axis; ++i) before *= view.dims[i];
  item.data = memory.ensure(item.desc());
  if (item.count() == 0) return item;
  visit_units(view.dtype, [&]<typename T>(int64_t units) {
    const int64_t chunk = item.count() * units / before;
    for (int64_t b = 0; b < before; ++b) {
      std::copy_n(view.as<T>() + (b * view.dims[axis] + index) * chunk, chunk, item.as<T>() + b * chunk);
    }
  });
  return item;
}

int64_t at_or(const std::vector<int64_t>& values, size_t i, int64_t fallback) {
  return i < values.size() ? values[i] : fallback;
}

void execute_scan(const ProgramInfo& info, Binding& outer, BoundStep& bound, Observer* observer) {
  const Attributes& attrs = bound.step->attrs;
  Body body(info, outer, bound, bound.step->blocks[0], observer);
  const auto scans = static_cast<size_t>(attrs.require_int("num_scan_inputs"));
  const size_t carried = body.block().inputs.size() - scans;
  const size_t stacked = body.block().outputs.size() - carried;
  const auto in_axes = attrs.get_ints("scan_input_axes");
  const auto in_directions = attrs.get_ints("scan_input_directions");
  const auto out_axes = attrs.get_ints("scan_output_axes");
  const auto out_directions = attrs.get_ints("scan_output_directions");
  std::vector<ValueMemory>& memory = bound.control->memory;
  memory.resize(carried + stacked + scans);

  std::vector<TensorView> values(carried + scans);
  for (size_t i = 0; i < carried; ++i) {
    values[i] = view_of(outer, bound.inputs[i]);
    store(outer, memory[i], -1, values[i]);
    values[i].data = memory[i].data();
  }
  std::vector<TensorView> sequences;
  std::vector<int> axes;
  int64_t length = -1;
  for (size_t i = 0; i < scans; ++i) {
    sequences.push_back(view_of(outer, bound.inputs[carried + i]));
    axes.push_back(normalize_axis(at_or(in_axes, i, 0), sequences[i].dims.rank(), "scan_input_axes"));
    const int64_t n = sequences[i].dims[axes[i]];
    if (length >= 0 && n != length) throw Error(Code::SHAPE_MISMATCH, "scan inputs differ in length");
    length = n;
  }
  std::vector<Stack> stacks(stacked);
  if (length == 0) {
    for (size_t i = 0; i < scans; ++i) {
      values[carried + i] = {sequences[i].dtype, sequences[i].dims, nullptr};
      values[carried + i].dims.erase(axes[i]);
    }
    for (size_t i = 0; i < stacked; ++i) stacks[i].expect(body.output_desc(values, carried + i));
  }
  for (int64_t t = 0; t < length; ++t) {
    for (size_t i = 0; i < scans; ++i) {
      const int64_t index = at_or(in_directions, i, 0) == 0 ? t : length - 1 - t;
      values[carried + i] = take_slice(sequences[i], axes[i], index, memory[carried + stacked + i]);
    }
    const std::vector<TensorView> results = body.run(values);
    for (size_t i = 0; i < carried; ++i) {
      values[i] = results[i];
      store(outer, memory[i], -1, results[i]);
      values[i].data = memory[i].data();
    }
    for (size_t i = 0; i < stacked; ++i) stacks[i].push(results[carried + i]);
  }
  for (size_t i = 0; i < bound.outputs.size(); ++i) {
    const int32_t buffer = bound.outputs[i];
    if (i < carried) {
      if (buffer >= 0) outer.slots[static_cast<size_t>(buffer)] = {values[i].data, values[i].desc()};
      continue;
    }
    const size_t k = i - carried;
    const int axis = normalize_axis(at_or(out_axes, k, 0), stacks[k].item_rank() + 1, "scan_output_axes");
    stacks[k].finish(outer, memory[i], buffer, axis, at_or(out_directions, k, 0) != 0);
  }
}

}  // namespace

void execute_control(const ProgramInfo& info, Binding& outer, BoundStep& bound, Observer* observer) {
  if (bound.step->op == "If") return execute_if(info, outer, bound, observer);
  if (bound.step->op == "Loop") return execute_loop(info, outer, bound, observer);
  if (bound.step->op == "Scan") return execute_scan(info, outer, bound, observer);
  throw Error(Code::INTERNAL, "unknown control step " + bound.step->op);
}

}  // namespace deepjit

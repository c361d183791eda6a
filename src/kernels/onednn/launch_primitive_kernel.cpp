#include <omp.h>

#include <algorithm>

#include "kernels/onednn/primitive_kernel.h"

namespace deepjit::onednn {

namespace {

size_t round_up(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

const PackedOperand* find_packed(const Tactic& tactic, int k) {
  for (const PackedOperand& packed : tactic.packed) {
    if (packed.input == k) return &packed;
  }
  return nullptr;
}

bool is_subnormal(uint32_t bits) { return (bits & 0x7fffffffu) != 0 && (bits & 0x7f800000u) == 0; }

// Products with subnormal weights take the processor a hundred times longer, and what they add is below 1e-8 for
// every activation below 1e30. Some trained models are full of them.
bool has_subnormals(const Tensor& t) {
  if (t.dtype() != DType::FLOAT32) return false;
  const auto* bits = static_cast<const uint32_t*>(t.view().data);
  return std::any_of(bits, bits + t.count(), is_subnormal);
}

void flush_subnormals(const memory::desc& desc, const Tensor& packed) {
  if (desc.get_data_type() != memory::data_type::f32) return;
  auto* bits = static_cast<uint32_t*>(packed.view().data);
  for (size_t i = 0; i < desc.get_size() / sizeof(uint32_t); ++i) {
    if (is_subnormal(bits[i])) bits[i] &= 0x80000000u;
  }
}

}  // namespace

ThreadScope::ThreadScope(int threads) {
  const int now = omp_get_max_threads();
  if (threads == 0 || threads == now) return;
  before_ = now;
  omp_set_num_threads(threads);
}

ThreadScope::~ThreadScope() {
  if (before_ != 0) omp_set_num_threads(before_);
}

int PrimitiveKernel::add_slot(Where where, size_t index, size_t offset, const memory::desc& desc, void* data) {
  slots_.push_back(Slot{where, index, offset, desc, memory(desc, engine(), data), data, Tensor(), -1, ""});
  return static_cast<int>(slots_.size()) - 1;
}

int PrimitiveKernel::input(int k, const memory::desc& desc) {
  return add_slot(Where::INPUT, static_cast<size_t>(k), 0, desc, DNNL_MEMORY_NONE);
}

int PrimitiveKernel::output(int k, const memory::desc& desc) {
  return add_slot(Where::OUTPUT, static_cast<size_t>(k), 0, desc, DNNL_MEMORY_NONE);
}

int PrimitiveKernel::temporary(const memory::desc& desc) {
  const size_t offset = temporaries_bytes_;
  temporaries_bytes_ += round_up(desc.get_size());
  return add_slot(Where::SCRATCH, 0, offset, desc, DNNL_MEMORY_NONE);
}

int PrimitiveKernel::alias(int slot, const memory::desc& desc) { return part(slot, desc, 0); }

int PrimitiveKernel::part(int slot, const memory::desc& desc, size_t offset) {
  const Slot of = slots_[static_cast<size_t>(slot)];
  if (of.where != Where::CONSTANT) return add_slot(of.where, of.index, of.offset + offset, desc, DNNL_MEMORY_NONE);
  const int added = add_slot(of.where, of.index, 0, desc, static_cast<char*>(of.address) + offset);
  slots_.back().data = of.data;
  return added;
}

int PrimitiveKernel::constant(const memory::desc& desc, Tensor data, int input, std::string format) {
  const int slot = add_slot(Where::CONSTANT, 0, 0, desc, data.view().data);
  Slot& added = slots_.back();
  added.data = std::move(data);
  added.packed_input = input;
  added.format = std::move(format);
  return slot;
}

void PrimitiveKernel::add_stage(dnnl::primitive primitive, const ArgList& args, const memory::desc& scratchpad) {
  Stage stage;
  stage.primitive = std::move(primitive);
  for (const auto& [arg, slot] : args) {
    stage.args.push_back(dnnl_exec_arg_t{arg, slots_[static_cast<size_t>(slot)].mem.get()});
  }
  const size_t bytes = scratchpad.get_size();
  if (bytes > 0) {
    stage.scratchpad = memory(scratchpad, engine(), DNNL_MEMORY_NONE);
    stage.args.push_back(dnnl_exec_arg_t{DNNL_ARG_SCRATCHPAD, stage.scratchpad.get()});
    scratchpad_bytes_ = std::max(scratchpad_bytes_, round_up(bytes));
  }
  stages_.push_back(std::move(stage));
}

void PrimitiveKernel::add_function(Function function, int from, int to) {
  Stage stage;
  stage.function = std::move(function);
  stage.from = from;
  stage.to = to;
  stages_.push_back(std::move(stage));
}

void PrimitiveKernel::copy(int from, int to) {
  dnnl::reorder::primitive_desc pd(engine(), desc(from), engine(), desc(to), base_attr());
  add_stage(dnnl::reorder(pd), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, pd.scratchpad_desc());
}

int PrimitiveKernel::reordered(int slot, const memory::desc& to) {
  if (desc(slot) == to) return slot;
  const int copied = temporary(to);
  copy(slot, copied);
  return copied;
}

std::vector<PackedOperand> PrimitiveKernel::packed_operands() const {
  std::vector<PackedOperand> result;
  for (const Slot& slot : slots_) {
    if (slot.format.empty()) continue;
    result.push_back(PackedOperand{slot.packed_input, slot.format, slot.data});
  }
  return result;
}

void PrimitiveKernel::set_addresses(const KernelArgs& args) {
  char* scratch = static_cast<char*>(args.scratch);
  for (Slot& slot : slots_) {
    char* data = nullptr;
    switch (slot.where) {
      case Where::INPUT:
        data = static_cast<char*>(args.inputs[slot.index]);
        break;
      case Where::OUTPUT:
        data = static_cast<char*>(args.outputs[slot.index]);
        break;
      case Where::SCRATCH:
        data = scratch;
        break;
      case Where::CONSTANT:
        continue;
    }
    data += slot.offset;
    if (data == slot.address) continue;
    check_status(dnnl_memory_set_data_handle(slot.mem.get(), data), "set_data_handle");
    slot.address = data;
  }
  if (scratch == scratch_) return;
  for (Stage& stage : stages_) {
    if (!stage.scratchpad) continue;
    check_status(dnnl_memory_set_data_handle(stage.scratchpad.get(), scratch + temporaries_bytes_), "set_data_handle");
  }
  scratch_ = scratch;
}

void PrimitiveKernel::run(const KernelArgs& args) {
  set_addresses(args);
  const ThreadScope threads(serial_ ? 1 : 0);
  dnnl_stream_t queue = stream().get();
  for (Stage& stage : stages_) {
    if (stage.function) {
      stage.function(slots_[static_cast<size_t>(stage.from)].address, slots_[static_cast<size_t>(stage.to)].address);
      continue;
    }
    const auto count = static_cast<int>(stage.args.size());
    check_status(dnnl_primitive_execute(stage.primitive.get(), queue, count, stage.args.data()), "execute");
  }
}

dnnl::primitive_attr base_attr() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attr;
}

bool has_input(const StepShape& shape, int k) {
  return k >= 0 && static_cast<size_t>(k) < shape.inputs.size() && in(shape, k).dtype != DType::UNDEFINED;
}

const Tensor* constant_data(const StepShape& shape, int k) {
  if (k < 0 || static_cast<size_t>(k) >= shape.constants.size()) return nullptr;
  const Tensor* data = shape.constants[static_cast<size_t>(k)];
  return data != nullptr && data->defined() ? data : nullptr;
}

bool is_constant(const StepShape& shape, const Tactic& tactic, int k) {
  return constant_data(shape, k) != nullptr || find_packed(tactic, k) != nullptr;
}

int weights(PrimitiveKernel& kernel, const StepShape& shape, const Tactic& tactic, int k, const memory::desc& plain,
            const memory::desc& wanted, const WeightsTransform& transform) {
  memory::desc from = plain;
  Tensor source;
  if (const PackedOperand* packed = find_packed(tactic, k)) {
    const std::string& prefix = transform.prefix;
    if (packed->format.rfind(prefix, 0) != 0) {
      throw Error(Code::ENGINE_RANGE, "packed operand has the unknown layout \"" + packed->format + "\"");
    }
    from = parse_stored(packed->format.substr(prefix.size()), packed->data.bytes()).stored;
    if (from.get_dims() != wanted.get_dims()) {
      throw Error(Code::ENGINE_RANGE,
                  "packed operand " + std::to_string(k) + " has other dims than the step's weights");
    }
    if (from == wanted) return kernel.constant(wanted, packed->data, k, packed->format);
    source = packed->data;
  } else if (const Tensor* data = constant_data(shape, k)) {
    if (transform.forward != nullptr) {
      source = transform.forward(*data);
    } else if (!(plain == wanted) || has_subnormals(*data)) {
      source = *data;
    }
  }
  if (!source.defined()) return kernel.reordered(kernel.input(k, plain), wanted);
  Tensor data(DType::UINT8, Dims{static_cast<int64_t>(wanted.get_size())});
  reorder_now(from, source.view().data, wanted, data.view().data);
  flush_subnormals(wanted, data);
  std::string format = describe(wanted, plain);
  if (!format.empty()) format = transform.prefix + format;
  return kernel.constant(wanted, data, k, format);
}

}  // namespace deepjit::onednn

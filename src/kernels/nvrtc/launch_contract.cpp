// The run side of generated contractions and windows.
#include "kernels/nvrtc/launch_contract.h"

#include <algorithm>
#include <climits>

#include "device/device.h"
#include "kernels/launch_words.h"
#include "kernels/nvrtc/attention_problem.h"
#include "kernels/nvrtc/contract_data.h"
#include "kernels/nvrtc/contract_problem.h"

namespace deepjit::nvrtc_gpu {

namespace {

using Kind = ContractProblem::Kind;

std::vector<uint64_t> product_numbers(const ContractProblem& p) {
  std::vector<int64_t> n = {p.m, p.n, p.k, p.lda, p.ldb, p.height, p.width, p.out_height, p.out_width};
  n.insert(n.end(), std::begin(p.extents), std::end(p.extents));
  n.insert(n.end(), std::begin(p.a_strides), std::end(p.a_strides));
  n.insert(n.end(), std::begin(p.b_strides), std::end(p.b_strides));
  return {n.begin(), n.end()};
}

std::vector<uint64_t> numbers_of(const ContractProblem& p) {
  std::vector<uint64_t> numbers;
  if (p.is_product()) {
    numbers = product_numbers(p);
  } else {
    for (int64_t n : {p.images, p.height, p.width, p.out_height, p.out_width}) {
      numbers.push_back(static_cast<uint64_t>(n));
    }
  }
  for (const auto* operands : {&p.operands, &p.prologue_operands}) {
    for (const EpilogueSource& s : *operands) {
      for (int64_t extent : s.extents) numbers.push_back(static_cast<uint64_t>(extent));
    }
  }
  return numbers;
}

// Rows of A that tensor copies read, in elements, `box` of them at a time; 0: none do.
struct MappedRows {
  int64_t count = 0, columns = 0, pitch = 0, box = 0;
};

// What a launch needs beside addresses.
struct Plan {
  int64_t blocks = 0;
  std::vector<uint64_t> numbers;
  bool product = false;
  size_t parts_bytes = 0, arrived_bytes = 0;  // of a split product
  MappedRows mapped;
};

// The blocks of a tile of a split product count how many of them have arrived; the last makes the count zero again.
Plan plan_product(const ContractData& data, const ContractProblem& p) {
  Plan plan;
  plan.product = true;
  plan.numbers = numbers_of(p);
  plan.mapped = {p.m, p.k, p.lda, data.map_rows};
  const int64_t cluster = std::max<int64_t>(data.cluster, 1);
  const int64_t tiles_m = round_up(ceil_div(p.m, data.tile_m), cluster);
  const int64_t tiles = checked_mul(checked_mul(tiles_m, ceil_div(p.n, data.tile_n)), p.batch);
  plan.blocks = checked_mul(tiles, data.split);
  if (data.split == 1) return plan;
  const int64_t floats = checked_mul(plan.blocks, checked_mul(data.tile_m, data.tile_n));
  plan.parts_bytes = static_cast<size_t>(checked_mul(floats, sizeof(float)));
  plan.arrived_bytes = static_cast<size_t>(tiles) * sizeof(unsigned);
  return plan;
}

Plan plan_window(const ContractData& data, const ContractProblem& p) {
  Plan plan;
  plan.numbers = numbers_of(p);
  // Pieces of an image: those of a block that shares its, else those of a thread.
  const bool shares = data.across > 0;
  const int64_t lines = checked_mul(p.images, ceil_div(p.out_height, shares ? data.down : data.rows));
  const int64_t pieces = checked_mul(checked_mul(lines, ceil_div(p.out_width, shares ? data.across : data.pixels)),
                                     ceil_div(p.channels, shares ? data.channels : data.chunk));
  if (pieces > INT_MAX) throw Error(Code::ENGINE_RANGE, "a generated kernel would need too many threads");
  plan.blocks = std::max<int64_t>(1, shares ? pieces : ceil_div(pieces, data.threads));
  return plan;
}

Plan plan_attention(const ContractData& data, const AttentionProblem& p) {
  Plan plan;
  plan.numbers.assign(p.numbers.begin(), p.numbers.end());
  plan.blocks = checked_mul(checked_mul(p.batch, p.heads), ceil_div(p.queries, data.tile_m));
  return plan;
}

class ContractKernel final : public Kernel {
 public:
  ContractKernel(const StepShape& shape, std::shared_ptr<device::Module> module, const ContractData& data,
                 const Plan& plan)
      : module_(std::move(module)),
        function_(&module_->function(data.name)),
        inputs_(shape.inputs.size()),
        product_(plan.product),
        parts_bytes_(plan.parts_bytes),
        rows_(plan.mapped),
        device_(shape.device),
        arrived_(*shape.device, device::Memory::Kind::DEVICE) {
    launch_.threads = static_cast<uint32_t>(data.threads);
    launch_.shared_bytes = static_cast<size_t>(data.shared_bytes);
    const int64_t resident = function_->blocks_per_processor(launch_.threads, launch_.shared_bytes);
    if (resident == 0) {
      throw Error(Code::ENGINE_INCOMPATIBLE, "a block of a generated kernel does not fit the device");
    }
    if (plan.blocks > INT_MAX) throw Error(Code::ENGINE_RANGE, "a generated kernel would need too many blocks");
    int64_t blocks = plan.blocks;
    if (data.cluster > 0) {
      const int64_t fit = resident * shape.device->info().processors / data.cluster * data.cluster;
      blocks = std::min(blocks, std::max(fit, data.cluster));
    }
    launch_.blocks = static_cast<uint32_t>(blocks);
    arguments_.resize(inputs_ + (product_ ? 3 : 1));
    arguments_.insert(arguments_.end(), plan.numbers.begin(), plan.numbers.end());
    launch_.maps = rows_.box > 0;
    if (launch_.maps) arguments_.resize(arguments_.size() + std::tuple_size_v<device::RowMap>);
    if (plan.arrived_bytes == 0) return;
    const auto stream = shape.device->make_stream();
    stream->fill(arrived_.ensure(plan.arrived_bytes), 0, plan.arrived_bytes);
    stream->synchronize();
  }

  size_t scratch_bytes() const override { return parts_bytes_; }

  void run(const KernelArgs& args) override {
    for (size_t i = 0; i < inputs_; ++i) arguments_[i] = reinterpret_cast<uint64_t>(args.inputs[i]);
    arguments_[inputs_] = reinterpret_cast<uint64_t>(args.outputs[0]);
    if (product_) {
      arguments_[inputs_ + 1] = reinterpret_cast<uint64_t>(args.scratch);
      arguments_[inputs_ + 2] = reinterpret_cast<uint64_t>(arrived_.data());
    }
    if (launch_.maps) map_rows(args.inputs[0]);
    args.stream->launch(*function_, launch_, arguments_);
  }

 private:
  // Rows that are not aligned are copied by threads: the kernel tells by the same rule (ContractEmitter::is_whole).
  void map_rows(const void* at) {
    const bool whole = reinterpret_cast<uintptr_t>(at) % 16 == 0 && rows_.pitch % 8 == 0 && rows_.columns % 8 == 0;
    if (at == mapped_ || !whole || rows_.count == 0 || rows_.columns == 0) return;
    const device::RowMap map = device_->map_rows(at, rows_.count, rows_.columns, rows_.pitch * 2, rows_.box);
    std::copy(map.begin(), map.end(), arguments_.end() - static_cast<std::ptrdiff_t>(map.size()));
    mapped_ = at;
  }

  std::shared_ptr<device::Module> module_;
  const device::Function* function_;
  size_t inputs_;
  bool product_;
  size_t parts_bytes_;
  MappedRows rows_;
  device::Device* device_;
  const void* mapped_ = nullptr;  // what the map in the arguments is of
  device::Memory arrived_;
  std::vector<uint64_t> arguments_;
  device::Launch launch_;
};

}  // namespace

Tensor write_contract_data(const ContractData& data) {
  std::vector<int64_t> words = {data.threads,  data.shared_bytes, data.tile_m,  data.tile_n, data.split,
                                data.pixels,   data.rows,         data.chunk,   data.across, data.down,
                                data.channels, data.cluster,      data.map_rows};
  write_text(words, data.name);
  write_text(words, data.built_in);
  return Tensor::vector_i64(words);
}

ContractData read_contract_data(const Tensor& tensor) {
  LaunchWords words(tensor);
  ContractData data;
  data.threads = words.next(32, 1024);
  data.shared_bytes = words.next(0, 1 << 20);
  data.tile_m = words.next(1, 1024);
  data.tile_n = words.next(1, 1024);
  data.split = words.next(1, 1024);
  data.pixels = words.next(1, 1024);
  data.rows = words.next(1, 1024);
  data.chunk = words.next(1, 16);
  data.across = words.next(0, 1024);
  data.down = words.next(data.across > 0 ? 1 : 0, 1024);
  data.channels = words.next(data.across > 0 ? 1 : 0, 1024);
  data.cluster = words.next(0, 8);
  data.map_rows = words.next(0, 256);
  data.name = words.text();
  data.built_in = words.text();
  return data;
}

std::unique_ptr<Kernel> make_contract_kernel(const StepShape& shape, std::shared_ptr<device::Module> module,
                                             const Tensor& launch) {
  const ContractData data = read_contract_data(launch);
  Plan plan;
  if (is_attention(*shape.step)) {
    const AttentionProblem problem = attention_problem(shape);
    if (!problem.reason.empty() || problem.built_in() != data.built_in) return nullptr;
    plan = plan_attention(data, problem);
  } else {
    const ContractProblem problem = contract_problem(shape);
    if (!problem.reason.empty() || problem.built_in() != data.built_in) return nullptr;
    plan = problem.is_product() ? plan_product(data, problem) : plan_window(data, problem);
  }
  return std::make_unique<ContractKernel>(shape, std::move(module), data, plan);
}

}  // namespace deepjit::nvrtc_gpu

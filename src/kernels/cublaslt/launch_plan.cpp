// cuBLASLt counts columns first. So it computes the transposed product of transposed operands, which are the same
// bytes: its A is our B, its B our A, and a vector along the rows of its result is our bias.
#include <algorithm>
#include <cstddef>

#include "device/device.h"
#include "kernels/cublaslt/plan.h"

namespace deepjit::cublaslt {

namespace {

// Operands start at such addresses, whoever made them.
constexpr uint32_t kAlignment = 16;

int type_of(DType dtype) {
  if (dtype == DType::FLOAT16) return kFloat16;
  return dtype == DType::BFLOAT16 ? kBfloat16 : kFloat32;
}

int compute_of(const Product& product) { return product.tf32 ? kComputeTf32 : kCompute32; }

int epilogue_of(const Product& product) {
  int epilogue = kEpilogueNone;
  if (product.activation == Activation::RELU) epilogue = kEpilogueRelu;
  if (product.activation == Activation::GELU_TANH) epilogue = kEpilogueGelu;
  if (product.bias_input < 0) return epilogue;
  return epilogue == kEpilogueNone ? kEpilogueBias : epilogue | kEpilogueBias;
}

std::shared_ptr<void> make_handle(const Library& library) {
  Handle handle = nullptr;
  check(library.create(&handle), "start");
  return {handle, [&library](void* made) { library.destroy(static_cast<Handle>(made)); }};
}

// Element `index` behind an address.
void* at(void* base, int64_t index, DType dtype) {
  return static_cast<std::byte*>(base) + index * static_cast<int64_t>(dtype_size(dtype));
}

}  // namespace

Plan::Plan(device::Device& device, Product product)
    : device_(device), product_(std::move(product)), library_(library()) {
  const device::Entered entered(device_);
  handle_ = device_.keep("cublaslt", [&] { return make_handle(library_); });
  const Product& p = product_;
  desc_ = make_desc();
  a_ = p.trans_a ? make_layout(p.m, p.k, p.stride.a) : make_layout(p.k, p.m, p.stride.a);
  b_ = p.trans_b ? make_layout(p.k, p.n, p.stride.b) : make_layout(p.n, p.k, p.stride.b);
  c_ = make_layout(p.n, p.m, p.c_input < 0 ? p.stride.y : p.stride.c);
  y_ = make_layout(p.n, p.m, p.stride.y);
}

Plan::OwnedDesc Plan::make_desc() const {
  Desc made = nullptr;
  check(library_.desc_create(&made, compute_of(product_), kFloat32), "describe a product");
  OwnedDesc desc(made, library_.desc_destroy);
  const auto set = [&](int attribute, const auto& value) {
    check(library_.desc_set(made, attribute, &value, sizeof value), "describe a product");
  };
  constexpr int32_t kPlain = 0, kTransposed = 1;
  set(kDescTransA, product_.trans_b ? kTransposed : kPlain);
  set(kDescTransB, product_.trans_a ? kTransposed : kPlain);
  set(kDescEpilogue, epilogue_of(product_));
  if (product_.bias_input < 0) return desc;
  set(kDescBiasType, type_of(product_.dtype));
  set(kDescBias, reinterpret_cast<const void*>(uintptr_t{kAlignment}));  // some address: each run sets its own
  return desc;
}

Plan::OwnedLayout Plan::make_layout(int64_t rows, int64_t columns, int64_t stride) const {
  Layout made = nullptr;
  check(library_.layout_create(&made, type_of(product_.dtype), static_cast<uint64_t>(rows),
                               static_cast<uint64_t>(columns), rows),
        "describe a matrix");
  OwnedLayout layout(made, library_.layout_destroy);
  if (product_.batch == 1) return layout;
  const auto batch = static_cast<int32_t>(product_.batch);
  check(library_.layout_set(made, kLayoutBatch, &batch, sizeof batch), "describe a batch");
  check(library_.layout_set(made, kLayoutBatchStride, &stride, sizeof stride), "describe a batch");
  return layout;
}

std::vector<Found> Plan::ask(int most) const {
  Preference made = nullptr;
  check(library_.preference_create(&made), "take preferences");
  const std::unique_ptr<PreferenceObject, Status (*)(Preference)> preference(made, library_.preference_destroy);
  const auto set = [&](int attribute, const auto& value) {
    check(library_.preference_set(made, attribute, &value, sizeof value), "take preferences");
  };
  set(kPreferWorkspace, uint64_t{kMostScratch});
  set(kPreferReductions, kReduceInComputeType);
  for (int operand = 0; operand < 4; ++operand) set(kPreferAlignment + operand, kAlignment);
  std::vector<Found> found(static_cast<size_t>(most));
  int count = 0;
  const Status status = library_.heuristic(static_cast<Handle>(handle_.get()), desc_.get(), b_.get(), a_.get(),
                                           c_.get(), y_.get(), made, most, found.data(), &count);
  found.resize(status == kSuccess ? static_cast<size_t>(count) : 0);
  std::erase_if(found, [](const Found& one) { return one.state != kSuccess || one.workspace > kMostScratch; });
  return found;
}

std::optional<Found> Plan::check_algo(const Algo& algo) const {
  Found found;
  const Status status = library_.algo_check(static_cast<Handle>(handle_.get()), desc_.get(), b_.get(), a_.get(),
                                            c_.get(), y_.get(), &algo, &found);
  if (status != kSuccess || found.workspace > kMostScratch) return std::nullopt;
  return found;
}

Algorithm Plan::describe(const Algo& algo) const {
  Algorithm out;
  for (size_t i = 0; i < Algorithm::kFields.size(); ++i) {
    const Algorithm::Field& field = Algorithm::kFields[i];
    size_t written = 0;  // the library's integers are little endian, as this machine's: a short one fills the low bytes
    // What an algorithm does not have, it does not tell.
    if (library_.algo_get(&algo, field.attribute, &out.values[i], field.bytes, &written) != kSuccess) out.values[i] = 0;
  }
  return out;
}

std::optional<Algo> Plan::rebuild(const Algorithm& algorithm) const {
  Algo algo;
  const int type = type_of(product_.dtype);
  const auto id = static_cast<int>(algorithm.values[0]);
  if (library_.algo_init(static_cast<Handle>(handle_.get()), compute_of(product_), kFloat32, type, type, type, type, id,
                         &algo) != kSuccess) {
    return std::nullopt;
  }
  for (size_t i = 1; i < Algorithm::kFields.size(); ++i) {
    const Algorithm::Field& field = Algorithm::kFields[i];
    if (algorithm.values[i] == 0) continue;  // the default of all of them, but for the split, which is then 1
    if (library_.algo_set(&algo, field.attribute, &algorithm.values[i], field.bytes) != kSuccess) return std::nullopt;
  }
  return algo;
}

std::vector<Algorithm> Plan::proposals(int most) {
  const device::Entered entered(device_);
  std::vector<Algorithm> out;
  for (const Found& found : ask(most)) {
    const Algorithm algorithm = describe(found.algo);
    const std::optional<Algo> again = rebuild(algorithm);
    const bool known = std::find(out.begin(), out.end(), algorithm) != out.end();
    if (!known && again && check_algo(*again)) out.push_back(algorithm);
  }
  return out;
}

bool Plan::choose(const Algorithm& algorithm) {
  const device::Entered entered(device_);
  const std::optional<Algo> algo = rebuild(algorithm);
  const std::optional<Found> found = algo ? check_algo(*algo) : std::nullopt;
  if (!found) return false;
  algo_ = *algo;
  scratch_ = found->workspace;
  return true;
}

bool Plan::choose_first() {
  const device::Entered entered(device_);
  for (const Found& found : ask(1)) {
    algo_ = found.algo;
    scratch_ = found.workspace;
    return true;
  }
  return false;
}

void Plan::run(const KernelArgs& args) {
  const device::Entered entered(device_);
  if (product_.bias_input >= 0) {
    const void* bias = args.inputs[product_.bias_input];
    check(library_.desc_set(desc_.get(), kDescBias, &bias, sizeof bias), "take a bias");
  }
  const DType dtype = product_.dtype;
  for (const Product::Offsets& offset : product_.launches) {
    void* y = at(args.outputs[0], offset.y, dtype);
    const void* c = product_.c_input < 0 ? y : at(args.inputs[product_.c_input], offset.c, dtype);
    check(library_.matmul(static_cast<Handle>(handle_.get()), desc_.get(), &product_.alpha,
                          at(args.inputs[1], offset.b, dtype), b_.get(), at(args.inputs[0], offset.a, dtype), a_.get(),
                          &product_.beta, c, c_.get(), y, y_.get(), &algo_, args.scratch, scratch_,
                          args.stream->handle()),
          "run a product");
  }
}

}  // namespace deepjit::cublaslt

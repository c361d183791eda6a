#include <algorithm>
#include <cmath>
#include <iterator>

#include "device/device.h"
#include "kernels/cudnn/plan.h"

namespace deepjit::cudnn {

namespace {

// Operands start at such addresses, whoever made them.
constexpr int64_t kAlignment = 16;
constexpr int64_t kMostKnobs = 64;
constexpr int64_t kMostNotes = 32;
constexpr int64_t kMostResults = 64;

int type_of(DType dtype) {
  if (dtype == DType::FLOAT16) return kFloat16;
  return dtype == DType::BFLOAT16 ? kBfloat16 : kFloat32;
}

std::shared_ptr<SharedHandle> make_handle(const Library& library) {
  auto made = std::make_unique<SharedHandle>();
  check(library.create(&made->handle), "start");
  return {made.release(), [&library](SharedHandle* own) {
            library.destroy(own->handle);
            delete own;
          }};
}

// Handles that wait for the next plan that wants one for itself.
struct SpareHandles {
  std::mutex mutex;
  std::vector<std::shared_ptr<SharedHandle>> spare;
};

std::shared_ptr<SharedHandle> handle_of(device::Device& device, const Library& library, HandleUse use) {
  const device::Entered entered(device);
  if (use == HandleUse::SHARED) {
    return std::static_pointer_cast<SharedHandle>(device.keep("cudnn", [&] { return make_handle(library); }));
  }
  const auto all = std::static_pointer_cast<SpareHandles>(
      device.keep("cudnn spare", [] { return std::make_shared<SpareHandles>(); }));
  std::shared_ptr<SharedHandle> taken;
  {
    const std::lock_guard<std::mutex> lock(all->mutex);
    if (!all->spare.empty()) {
      taken = std::move(all->spare.back());
      all->spare.pop_back();
    }
  }
  if (taken == nullptr) taken = make_handle(library);
  SharedHandle* handle = taken.get();
  return {handle, [all, taken](SharedHandle*) mutable {
            const std::lock_guard<std::mutex> lock(all->mutex);
            all->spare.push_back(std::move(taken));
          }};
}

// While the library works: the device is the current one, and nobody else uses the handle.
class AtWork {
 public:
  AtWork(device::Device& device, SharedHandle& handle) : entered_(device), lock_(handle.mutex) {}

 private:
  device::Entered entered_;
  std::lock_guard<std::mutex> lock_;
};

// A name of the tensor at this place.
int64_t id_of(size_t index) { return static_cast<int64_t>(index) + 1; }

// What the library does not support is no error here; everything else is.
template <typename F>
bool works(F&& body) {
  try {
    return body();
  } catch (const Error& e) {
    if (e.code() != Code::INTERNAL) throw;
    return false;
  }
}

}  // namespace

Plan::Plan(device::Device& device, Graph graph, HandleUse use)
    : device_(device), graph_(std::move(graph)), library_(library()), handle_(handle_of(device, library_, use)) {
  const AtWork at_work(device_, *handle_);
  operations_ = make_graph();
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    if (graph_.tensors[i].kind != TensorSpec::Kind::VIRTUAL) ids_.push_back(id_of(i));
  }
  addresses_.resize(ids_.size());
}

Plan::~Plan() {
  try {
    const AtWork at_work(device_, *handle_);
    for (BackendObject* object : {&pack_, &plan_, &operations_}) *object = BackendObject();
    plan_parts_.clear();
    graph_parts_.clear();
  } catch (const Error&) {  // in a forked child
  }
}

BackendObject Plan::make_tensor(size_t index) const {
  const TensorSpec& spec = graph_.tensors[index];
  BackendObject tensor(kTensor);
  tensor.set_enum(kTensorType, kTypeDataType, type_of(spec.dtype));
  tensor.set_ints(kTensorDims, spec.dims);
  tensor.set_ints(kTensorStrides, spec.strides);
  tensor.set_int(kTensorId, id_of(index));
  tensor.set_int(kTensorAlignment, kAlignment);
  if (spec.kind == TensorSpec::Kind::VIRTUAL) tensor.set_bool(kTensorVirtual, true);
  if (spec.kind == TensorSpec::Kind::SCALAR) tensor.set_bool(kTensorByValue, true);
  tensor.finalize();
  return tensor;
}

BackendObject Plan::make_convolution(const Parts& tensors) {
  BackendObject conv(kConvolution);
  conv.set_enum(kConvType, kTypeDataType, kFloat32);
  conv.set_enum(kConvMode, kTypeConvMode, kCrossCorrelation);
  conv.set_int(kConvSpatial, static_cast<int64_t>(graph_.strides.size()));
  conv.set_ints(kConvStrides, graph_.strides);
  conv.set_ints(kConvDilations, graph_.dilations);
  conv.set_ints(kConvPadsBegin, graph_.pads_begin);
  conv.set_ints(kConvPadsEnd, graph_.pads_end);
  conv.finalize();
  const bool back = graph_.kind == Graph::Kind::TRANSPOSED;
  BackendObject op(back ? kOpConvBackwardData : kOpConvForward);
  op.set_object(back ? kBackwardConv : kForwardConv, conv);
  op.set_object(back ? kBackwardDy : kForwardX, tensors[static_cast<size_t>(graph_.from)]);
  op.set_object(back ? kBackwardW : kForwardW, tensors[static_cast<size_t>(graph_.w)]);
  op.set_object(back ? kBackwardDx : kForwardY, tensors[static_cast<size_t>(graph_.to)]);
  op.set_float(back ? kBackwardAlpha : kForwardAlpha, 1);
  op.set_float(back ? kBackwardBeta : kForwardBeta, 0);
  op.finalize();
  graph_parts_.push_back(std::move(conv));
  return op;
}

BackendObject Plan::make_product(const Parts& tensors) {
  BackendObject desc(kMatmul);
  desc.set_enum(kMatmulType, kTypeDataType, kFloat32);
  desc.finalize();
  BackendObject op(kOpMatmul);
  op.set_object(kOpMatmulDesc, desc);
  op.set_object(kOpMatmulA, tensors[static_cast<size_t>(graph_.from)]);
  op.set_object(kOpMatmulB, tensors[static_cast<size_t>(graph_.w)]);
  op.set_object(kOpMatmulC, tensors[static_cast<size_t>(graph_.to)]);
  op.finalize();
  graph_parts_.push_back(std::move(desc));
  return op;
}

BackendObject Plan::make_pool(const Parts& tensors) {
  const bool max = graph_.pool == Pool::MAX;
  BackendObject desc(kResample);
  desc.set_enum(kResampleMode, kTypeResampleMode, static_cast<int>(graph_.pool));
  desc.set_enum(kResampleMath, kTypeDataType, kFloat32);
  desc.set_int(kResampleSpatial, static_cast<int64_t>(graph_.window.size()));
  desc.set_ints(kResampleWindow, graph_.window);
  desc.set_ints(kResampleStrides, graph_.strides);
  desc.set_ints(kResamplePadsBegin, graph_.pads_begin);
  desc.set_ints(kResamplePadsEnd, graph_.pads_end);
  desc.set_enum(kResamplePadding, kTypePaddingMode, max ? kPadWithNothing : kPadWithZero);
  if (max) desc.set_enum(kResampleNan, kTypeNanMode, kPropagateNan);
  desc.finalize();
  BackendObject op(kOpResampleForward);
  op.set_object(kOpResampleX, tensors[static_cast<size_t>(graph_.from)]);
  op.set_object(kOpResampleY, tensors[static_cast<size_t>(graph_.to)]);
  op.set_object(kOpResampleDesc, desc);
  op.finalize();
  graph_parts_.push_back(std::move(desc));
  return op;
}

BackendObject Plan::make_attention(const Parts& tensors) const {
  BackendObject op(kOpAttentionForward);
  op.set_object(kAttentionQ, tensors[static_cast<size_t>(graph_.from)]);
  op.set_object(kAttentionK, tensors[static_cast<size_t>(graph_.w)]);
  op.set_object(kAttentionV, tensors[static_cast<size_t>(graph_.values)]);
  op.set_object(kAttentionO, tensors[static_cast<size_t>(graph_.to)]);
  op.set_object(kAttentionScale, tensors[static_cast<size_t>(graph_.scale)]);
  op.finalize();
  return op;
}

BackendObject Plan::make_operation(const Parts& tensors) {
  switch (graph_.kind) {
    case Graph::Kind::PRODUCT:
      return make_product(tensors);
    case Graph::Kind::POOL:
      return make_pool(tensors);
    case Graph::Kind::ATTENTION:
      return make_attention(tensors);
    default:
      return make_convolution(tensors);
  }
}

BackendObject Plan::make_pointwise(const PointwiseSpec& spec, const Parts& tensors) {
  BackendObject desc(kPointwise);
  desc.set_enum(kPointwiseMode, kTypePointwiseMode, static_cast<int>(spec.mode));
  desc.set_enum(kPointwiseMath, kTypeDataType, kFloat32);
  if (spec.mode == Mode::RELU) {
    desc.set_enum(kPointwiseNan, kTypeNanMode, kPropagateNan);
    if (spec.lower != 0) desc.set_float(kReluLower, spec.lower);
    if (std::isfinite(spec.upper)) desc.set_float(kReluUpper, spec.upper);
    if (spec.slope != 0) desc.set_float(kReluSlope, spec.slope);
  }
  if (spec.mode == Mode::ELU) desc.set_float(kEluAlpha, spec.factor);
  if (spec.mode == Mode::SWISH) desc.set_float(kSwishBeta, spec.factor);
  desc.finalize();
  BackendObject op(kOpPointwise);
  op.set_object(kOpPointwiseDesc, desc);
  op.set_object(kOpPointwiseX, tensors[static_cast<size_t>(spec.x)]);
  if (spec.b >= 0) op.set_object(kOpPointwiseB, tensors[static_cast<size_t>(spec.b)]);
  op.set_object(kOpPointwiseY, tensors[static_cast<size_t>(spec.y)]);
  op.finalize();
  graph_parts_.push_back(std::move(desc));
  return op;
}

BackendObject Plan::make_graph() {
  Parts tensors;
  for (size_t i = 0; i < graph_.tensors.size(); ++i) tensors.push_back(make_tensor(i));
  Parts ops;
  ops.push_back(make_operation(tensors));
  for (const PointwiseSpec& spec : graph_.pointwise) ops.push_back(make_pointwise(spec, tensors));
  BackendObject graph(kOperationGraph);
  graph.set_handle(kGraphHandle, handle_->handle);
  graph.set_objects(kGraphOps, ops);
  graph.finalize();
  for (Parts* parts : {&tensors, &ops}) {
    std::move(parts->begin(), parts->end(), std::back_inserter(graph_parts_));
  }
  return graph;
}

bool Plan::is_welcome(const BackendObject& engine) const {
  std::vector<int> notes(kMostNotes);
  const int64_t count = engine.get(kEngineNotes, kTypeNumericalNote, kMostNotes, notes.data());
  notes.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, kMostNotes)));
  const bool whole_float = graph_.tensors[static_cast<size_t>(graph_.from)].dtype == DType::FLOAT32 && !graph_.tf32;
  return std::none_of(notes.begin(), notes.end(), [&](int note) {
    if (note == kNoteReducedSums || note == kNoteNondeterministic) return true;
    return whole_float && (note == kNoteTensorCore || note == kNoteDownConverts);
  });
}

void Plan::append_proposals(int mode, size_t most, std::vector<EngineChoice>& out) const {
  BackendObject heuristics(kHeuristics);
  heuristics.set_object(kHeurGraph, operations_);
  heuristics.set_enum(kHeurMode, kTypeHeurMode, mode);
  heuristics.finalize();
  const int64_t count = std::min(heuristics.get(kHeurResults, kTypeObject, 0, nullptr), kMostResults);
  for (const BackendObject& config : heuristics.get_objects(kHeurResults, kEngineConfig, count)) {
    if (out.size() >= most) return;
    const std::vector<BackendObject> engines = config.get_objects(kConfigEngine, kEngine, 1);
    if (engines.empty() || !is_welcome(engines[0])) continue;
    EngineChoice choice{engines[0].get_int(kEngineIndex), {}};
    for (const BackendObject& knob : config.get_objects(kConfigKnobs, kKnobChoice, kMostKnobs)) {
      int type = 0;
      knob.get(kKnobType, kTypeKnob, 1, &type);
      choice.knobs.emplace_back(type, knob.get_int(kKnobValue));
    }
    std::sort(choice.knobs.begin(), choice.knobs.end());
    if (std::find(out.begin(), out.end(), choice) == out.end()) out.push_back(std::move(choice));
  }
}

std::vector<EngineChoice> Plan::proposals(size_t most) const {
  const AtWork at_work(device_, *handle_);
  std::vector<EngineChoice> out;
  for (int mode : {kHeurA, kHeurB, kHeurFallback}) {
    if (mode == kHeurFallback && !out.empty()) break;
    works([&] {
      append_proposals(mode, mode == kHeurA ? (most + 1) / 2 : most, out);
      return true;
    });
  }
  return out;
}

bool Plan::accept(BackendObject plan, Parts parts) {
  plan.finalize();
  const int64_t scratch = plan.get_int(kPlanWorkspace);
  if (scratch < 0 || scratch > kMostScratch) return false;
  plan_ = std::move(plan);
  plan_parts_ = std::move(parts);
  scratch_ = scratch;
  pack_ = BackendObject();
  return true;
}

bool Plan::choose(const EngineChoice& choice) {
  const AtWork at_work(device_, *handle_);
  return works([&] {
    BackendObject engine(kEngine);
    engine.set_object(kEngineGraph, operations_);
    engine.set_int(kEngineIndex, choice.engine);
    engine.finalize();
    Parts parts;
    for (const auto& [type, value] : choice.knobs) {
      BackendObject& knob = parts.emplace_back(kKnobChoice);
      knob.set_enum(kKnobType, kTypeKnob, static_cast<int>(type));
      knob.set_int(kKnobValue, value);
      knob.finalize();
    }
    BackendObject config(kEngineConfig);
    config.set_object(kConfigEngine, engine);
    if (!parts.empty()) config.set_objects(kConfigKnobs, parts);
    config.finalize();
    BackendObject plan(kExecutionPlan);
    plan.set_handle(kPlanHandle, handle_->handle);
    plan.set_object(kPlanConfig, config);
    parts.push_back(std::move(engine));
    parts.push_back(std::move(config));
    return accept(std::move(plan), std::move(parts));
  });
}

bool Plan::choose_first() {
  constexpr size_t kMostTries = 16;
  const std::vector<EngineChoice> all = proposals(kMostTries);
  return std::any_of(all.begin(), all.end(), [&](const EngineChoice& choice) { return this->choose(choice); });
}

std::string Plan::save() const {
  const AtWork at_work(device_, *handle_);
  std::string text(static_cast<size_t>(plan_.get(kPlanJson, kTypeChar, 0, nullptr)), '\0');
  const int64_t count = plan_.get(kPlanJson, kTypeChar, static_cast<int64_t>(text.size()), text.data());
  text.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, static_cast<int64_t>(text.size()))));
  return text;
}

bool Plan::load(const std::string& text) {
  const AtWork at_work(device_, *handle_);
  return works([&] {
    BackendObject plan(kExecutionPlan);
    plan.set_handle(kPlanHandle, handle_->handle);
    plan.set(kPlanJson, kTypeChar, static_cast<int64_t>(text.size()), text.data());
    return accept(std::move(plan), {});
  });
}

// The library makes an object of the addresses; one is kept while they stay the same.
void Plan::set_addresses(const KernelArgs& args) {
  bool same = static_cast<bool>(pack_) && scratch_address_ == args.scratch;
  for (size_t i = 0; i < ids_.size(); ++i) {
    TensorSpec& tensor = graph_.tensors[static_cast<size_t>(ids_[i]) - 1];
    void* address = &tensor.value;
    if (tensor.kind == TensorSpec::Kind::INPUT) {
      address = static_cast<std::byte*>(args.inputs[tensor.input]) +
                tensor.offset * static_cast<int64_t>(dtype_size(tensor.dtype));
    }
    if (tensor.kind == TensorSpec::Kind::OUTPUT) address = args.outputs[0];
    same = same && addresses_[i] == address;
    addresses_[i] = address;
  }
  if (same) return;
  scratch_address_ = args.scratch;
  pack_ = BackendObject(kVariantPack);
  pack_.set_ints(kPackIds, ids_);
  pack_.set(kPackPointers, kTypePointer, static_cast<int64_t>(addresses_.size()), addresses_.data());
  pack_.set(kPackWorkspace, kTypePointer, 1, &scratch_address_);
  pack_.finalize();
}

void Plan::run(const KernelArgs& args) {
  const AtWork at_work(device_, *handle_);
  set_addresses(args);
  check(library_.set_stream(handle_->handle, args.stream->handle()), "take a stream");
  check(library_.execute(handle_->handle, plan_.get(), pack_.get()), "run a graph");
}

}  // namespace deepjit::cudnn

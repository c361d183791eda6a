#include "kernels/nvrtc/offer_contract.h"

#include <algorithm>

#include "codegen/contract/attention.h"
#include "codegen/expand.h"
#include "device/device.h"
#include "kernels/nvrtc/attention_problem.h"
#include "kernels/nvrtc/contract_data.h"
#include "program/tf32.h"

namespace deepjit::nvrtc_gpu {

namespace {

using Kind = ContractProblem::Kind;
using Ref = IrBuilder::Ref;

constexpr size_t kMostTiles = 8;
constexpr int64_t kManyRows = 512;     // fewer leave groups of warps without work
constexpr int kUsualProcessors = 108;  // where no device is there to ask
constexpr int kLeastArchitecture = 80;

// ---- epilogues --------------------------------------------------------------------------------------

// An op without operand: by the rule of the op that it is.
Ref expand_unary(IrBuilder& b, const EpilogueTerm& term, Ref x) {
  if (term.name == "Linear") {
    if (term.alpha != 1) x = b.binary(Opcode::MUL, x, b.constant(term.alpha));
    return term.beta != 0 ? b.binary(Opcode::ADD, x, b.constant(term.beta)) : x;
  }
  if (term.name == "Clip") {
    return b.binary(Opcode::MIN, b.binary(Opcode::MAX, x, b.constant(term.alpha)), b.constant(term.beta));
  }
  OpView view;
  Attributes attrs;
  attrs.set("alpha", static_cast<float>(term.alpha));
  attrs.set("beta", static_cast<float>(term.beta));
  if (term.name == "GeluTanh") attrs.set("approximate", std::string("tanh"));
  view.op = term.name == "GeluTanh" ? "Gelu" : term.name;
  view.attrs = &attrs;
  view.inputs = view.outputs = {TensorType{DType::FLOAT32, Shape(Dims{})}};
  view.constants = {nullptr};
  const ExpandRule* rule = find_rule(view.op);
  check_internal(rule != nullptr, "codegen: an epilogue's op has no rule");
  Expansion expansion{b, view, {x}};
  return rule->expand(expansion);
}

Opcode opcode_of(const std::string& name) {
  if (name == "Add") return Opcode::ADD;
  if (name == "Sub") return Opcode::SUB;
  if (name == "Mul") return Opcode::MUL;
  check_internal(name == "Div", "codegen: an epilogue's op takes no operand");
  return Opcode::DIV;
}

Epilogue epilogue_of_terms(const std::vector<EpilogueTerm>& terms, const std::vector<EpilogueSource>& operands) {
  Epilogue epilogue;
  IrBuilder b;
  const auto load = [&](size_t access, DType dtype) {
    return b.load({static_cast<int32_t>(access), dtype, {Quantity{static_cast<int64_t>(access) + 2, {}}}});
  };
  Ref value = load(0, DType::FLOAT32);
  for (const EpilogueSource& s : operands) epilogue.operands.push_back({s.input, s.dtype, s.rows, s.columns});
  for (const EpilogueTerm& term : terms) {
    if (term.operand < 0) {
      value = expand_unary(b, term, value);
      continue;
    }
    const auto k = static_cast<size_t>(term.operand);
    Ref operand = load(k + 1, epilogue.operands[k].dtype);
    if (term.alpha != 1) operand = b.binary(Opcode::MUL, operand, b.constant(term.alpha));
    value = b.binary(opcode_of(term.name), value, operand);
  }
  epilogue.ir = std::move(b.kernel);
  epilogue.result = value;
  for (Inst& inst : epilogue.ir.insts) {  // accesses are numbered as loads came
    if (inst.op == Opcode::LOAD) inst.access = epilogue.ir.accesses[static_cast<size_t>(inst.access)].operand;
  }
  return epilogue;
}

ContractImage image_of(const ContractProblem& p) {
  ContractImage image;
  image.channels = p.channels;
  image.all_channels = p.all_channels;
  std::copy(std::begin(p.kernel), std::end(p.kernel), image.kernel);
  std::copy(std::begin(p.strides), std::end(p.strides), image.strides);
  std::copy(std::begin(p.dilations), std::end(p.dilations), image.dilations);
  std::copy(std::begin(p.pads), std::end(p.pads), image.pads);
  image.transposed = p.transposed;
  return image;
}

// ---- choosing tiles ---------------------------------------------------------------------------------

// Of packed weights: the tensor cores' time for a step, or that of its copies, and that of a result, which a second
// team hides. Measured on an H200.
double rough_cost_packed(const ContractProblem& p, const ContractTile& t, int processors) {
  const double area = t.m * t.n, bytes = (t.m + t.n) * t.k * 2.0;  // a copy for the cluster arrives in each block
  const int64_t tiles_m = round_up(ceil_div(p.m, t.m), t.cluster);
  const double tiles = static_cast<double>(tiles_m * ceil_div(p.n, t.n) * t.split);
  const double steps = static_cast<double>(ceil_div(ceil_div(p.k, t.k), t.split));
  const double products = steps * std::max({area * t.k / 1800, bytes / 40, 150.0});
  const double result = 500 + area * 0.2 * 256 / t.threads() + (t.split > 1 ? 900 + area * t.split / 24 : 0);
  const double turns = std::ceil(tiles / processors);
  const double more = t.teams() > 1 ? std::max(products, result) : products + result;
  const double alone = t.cluster == 1 ? 1.01 : 1;  // more is read from the L2
  return (2000 + products + result + (turns - 1) * more) * alone;
}

// What a tile may take, roughly, in cycles of a processor: its steps along k one after another, as often as its blocks
// need turns, and what a split adds. Of use between tiles of one kind of arithmetic.
double rough_cost(const ContractProblem& p, const ContractTile& t, int processors) {
  if (t.packed()) return rough_cost_packed(p, t, processors);
  const double tiles = static_cast<double>(ceil_div(p.m, t.m) * ceil_div(p.n, t.n)) * static_cast<double>(p.batch);
  const double steps = static_cast<double>(ceil_div(ceil_div(p.k, t.k), t.split));
  const double area = t.m * t.n;
  const double bytes = (t.m + t.n) * t.k * (p.type == DType::FLOAT32 ? 4.0 : 2.0);
  const double turns = std::ceil(tiles * t.split / processors);
  const double split = t.split > 1 ? 900 + area * t.split / 24 : 0;
  if (t.math == ContractMath::GROUP_16) {  // one block keeps a processor busy, a second hides its result
    const double resident = bytes * t.stages < (110 << 10) ? 2 : 1;
    const double waits = resident == 1 && t.stages == 3 ? 1.4 : 1;  // copies are but one step ahead
    return turns * steps * std::max(area * t.k / 1700, 250.0) * waits + std::ceil(turns / resident) * (area / 6 + 800) +
           split;
  }
  const double rate = t.math == ContractMath::TENSOR_16 ? 1024 : t.math == ContractMath::TENSOR_32 ? 512 : 128;
  const double step = std::max({area * t.k / rate, bytes / 64, 120.0});
  const double resident = std::max(1.0, std::min(4.0, 24576 / (area + bytes * t.stages / 8)));
  const double together = std::min(turns, resident);
  const double work = steps * step * (turns / together) * (1 + 0.35 * (together - 1));
  return work + 1500 + area * 4 / 24 + split;
}

struct Shape3 {
  int m, n, k, warps_m, warps_n;
};
constexpr Shape3 kTensorShapes[] = {
    {128, 128, 32, 2, 2}, {128, 128, 64, 4, 2}, {128, 64, 32, 2, 2}, {64, 128, 32, 2, 2}, {64, 64, 32, 2, 2},
    {64, 64, 64, 2, 2},   {64, 32, 64, 2, 2},   {32, 64, 64, 2, 2},  {32, 32, 64, 2, 2},  {128, 32, 64, 4, 1},
    {16, 64, 64, 1, 4},   {64, 16, 64, 4, 1},   {16, 32, 128, 1, 2}, {256, 64, 32, 4, 1}, {16, 128, 64, 1, 4}};
constexpr Shape3 kGroupShapes[] = {{128, 128, 64, 8, 1}, {128, 256, 64, 8, 1}, {128, 192, 64, 8, 1},
                                   {256, 128, 64, 8, 1}, {128, 64, 64, 8, 1},  {64, 128, 64, 4, 1},
                                   {64, 256, 64, 4, 2},  {64, 64, 64, 4, 1},   {128, 96, 64, 8, 1}};
constexpr Shape3 kPackedShapes[] = {{128, 256, 64, 8, 1}, {128, 192, 64, 8, 1}, {256, 128, 64, 8, 1},
                                    {128, 128, 64, 4, 1}, {64, 256, 64, 4, 1},  {64, 192, 64, 4, 1},
                                    {128, 96, 64, 4, 1},  {128, 64, 64, 4, 1},  {64, 128, 64, 4, 1},
                                    {64, 96, 64, 4, 1},   {64, 64, 64, 4, 1},   {64, 32, 64, 4, 1}};
constexpr Shape3 kTensor32Shapes[] = {{128, 128, 16, 2, 2}, {128, 64, 16, 2, 2}, {64, 128, 16, 2, 2},
                                      {64, 64, 16, 2, 2},   {64, 64, 32, 2, 2},  {64, 32, 32, 2, 2},
                                      {32, 64, 32, 2, 2},   {32, 32, 32, 2, 2},  {16, 64, 32, 1, 4}};
constexpr Shape3 kPlainShapes[] = {{128, 128, 16, 4, 2}, {128, 64, 16, 2, 2}, {64, 128, 16, 2, 2}, {64, 64, 16, 2, 2},
                                   {64, 32, 16, 2, 2},   {32, 64, 16, 2, 2},  {32, 32, 32, 2, 1},  {16, 64, 32, 2, 1}};

template <size_t N>
void add_tiles(const Shape3 (&shapes)[N], ContractMath math, const ContractProblem& p, const ContractSpec& spec,
               std::vector<ContractTile>& tiles) {
  for (const Shape3& s : shapes) {
    for (int split : {1, 2, 4, 8, 16}) {
      const int64_t steps = ceil_div(p.k, s.k);
      if (split > 1 && steps < 2 * split) continue;
      for (int stages : {3, 4}) {
        const ContractTile tile{math, s.m, s.n, s.k, s.warps_m, s.warps_n, stages, split};
        if (stages == 4 && steps < 6) continue;
        if (why_not_tile(spec, tile).empty()) tiles.push_back(tile);
      }
    }
  }
}

void add_packed_tiles(const ContractProblem& p, const ContractSpec& spec, std::vector<ContractTile>& tiles) {
  for (const Shape3& s : kPackedShapes) {
    for (int split : {1, 2, 4}) {
      const int64_t steps = ceil_div(ceil_div(p.k, s.k), split);
      if (split > 1 && steps < 4) continue;
      for (int cluster : {1, 2}) {
        if (ceil_div(p.m, s.m) < cluster) continue;
        // As many stages as there is room and use for.
        for (int stages = static_cast<int>(std::clamp<int64_t>(steps, 3, 16)); stages >= 3; --stages) {
          const ContractTile tile{ContractMath::GROUP_16, s.m, s.n, s.k, s.warps_m, s.warps_n, stages, split, cluster};
          if (!why_not_tile(spec, tile).empty()) continue;
          tiles.push_back(tile);
          break;
        }
      }
    }
  }
}

AttentionSpec attention_spec(const AttentionProblem& p, const StepShape& shape) {
  AttentionSpec spec;
  spec.type = p.type;
  spec.head = p.head;
  spec.heads = p.heads;
  spec.kv_heads = p.kv_heads;
  spec.mask = p.mask;
  spec.mask_by_query = p.mask_by_query;
  spec.causal = p.causal;
  spec.scale = p.scale;
  spec.inputs = static_cast<int>(shape.inputs.size());
  return spec;
}

std::vector<std::string> attention_variants(const AttentionProblem& p, const StepShape& shape) {
  std::vector<std::string> variants;
  const AttentionSpec spec = attention_spec(p, shape);
  for (const AttentionTile& t : {AttentionTile{4, 1, 64},
                                 {4, 1, 32},
                                 {4, 1, 128},
                                 {8, 1, 64},
                                 {2, 2, 32},
                                 {1, 4, 32},
                                 {1, 4, 16},
                                 {2, 1, 64},
                                 {2, 2, 64}}) {
    if (t.warps_k > 1 && p.keys <= t.keys) continue;
    if (why_not_tile(spec, t).empty()) variants.push_back(t.to_string());
  }
  return variants;
}

// The likeliest tiles. The model is rough: tiles that differ are worth more than splits of one tile.
void choose_tiles(std::vector<ContractTile> tiles, size_t most, const ContractProblem& problem, int processors,
                  std::vector<ContractTile>& chosen) {
  std::stable_sort(tiles.begin(), tiles.end(), [&](const ContractTile& x, const ContractTile& y) {
    return rough_cost(problem, x, processors) < rough_cost(problem, y, processors);
  });
  const size_t end = chosen.size() + most;
  for (size_t each = 1; each <= 2; ++each) {
    for (const ContractTile& t : tiles) {
      const auto like = [&](const ContractTile& other) {
        return other.math == t.math && other.m == t.m && other.n == t.n && other.k == t.k &&
               other.packed() == t.packed();
      };
      const auto same = static_cast<size_t>(std::count_if(chosen.begin(), chosen.end(), like));
      const bool known = std::count(chosen.begin(), chosen.end(), t) != 0;
      if (!known && same < each && chosen.size() < (each == 1 ? end - 2 : end)) chosen.push_back(t);
    }
  }
}

}  // namespace

std::vector<ContractTile> contract_tiles(const ContractProblem& problem, const ContractSpec& spec, bool tf32,
                                         int processors, bool groups) {
  std::vector<ContractTile> tiles, chosen;
  if (spec.type != DType::FLOAT32) {
    if (groups) {
      add_packed_tiles(problem, spec, tiles);
      choose_tiles(std::move(tiles), problem.m < kManyRows ? 5 : 8, problem, processors, chosen);
      tiles.clear();
      if (chosen.empty()) {
        add_tiles(kGroupShapes, ContractMath::GROUP_16, problem, spec, tiles);
        choose_tiles(std::move(tiles), problem.m < kManyRows ? 3 : 7, problem, processors, chosen);
      }
      tiles.clear();
    }
    add_tiles(kTensorShapes, ContractMath::TENSOR_16, problem, spec, tiles);
  } else if (tf32) {
    add_tiles(kTensor32Shapes, ContractMath::TENSOR_32, problem, spec, tiles);
  } else {
    add_tiles(kPlainShapes, ContractMath::PLAIN_32, problem, spec, tiles);
  }
  // Where packed weights fit well, a tile without groups is there to compare.
  const bool wide = problem.m >= kManyRows && problem.n >= 64 && !chosen.empty() && chosen[0].packed();
  const size_t most = chosen.empty() ? kMostTiles : wide ? 1 : 5;
  choose_tiles(std::move(tiles), most, problem, processors, chosen);
  return chosen;
}

ContractSpec contract_spec(const ContractProblem& p, const StepShape& shape) {
  ContractSpec spec;
  spec.type = p.type;
  using Form = ContractSpec::Form;
  spec.a = p.kind == Kind::IMAGE ? Form::IMAGE : p.a_columns ? Form::COLUMNS : Form::ROWS;
  spec.b = p.b_columns ? Form::COLUMNS : Form::ROWS;
  if (p.n_known) spec.n = p.n;
  if (p.k_known) spec.k = p.k;
  if (p.kind == Kind::IMAGE) spec.image = image_of(p);
  spec.groups = p.kind == Kind::IMAGE ? p.groups : 1;
  spec.batched = p.batched;
  spec.inputs = static_cast<int>(shape.inputs.size());
  spec.weights = p.weights && shape.constants[1] != nullptr;
  spec.epilogue = epilogue_of_terms(p.epilogue, p.operands);
  if (!p.prologue.empty()) spec.prologue = epilogue_of_terms(p.prologue, p.prologue_operands);
  return spec;
}

WindowSpec window_spec(const ContractProblem& p, const StepShape& shape) {
  WindowSpec spec;
  spec.kind = p.kind == Kind::DEPTHWISE ? WindowSpec::Kind::DEPTHWISE
              : p.kind == Kind::MAXIMUM ? WindowSpec::Kind::MAXIMUM
                                        : WindowSpec::Kind::AVERAGE;
  spec.type = p.type;
  spec.image = image_of(p);
  std::copy(std::begin(p.pads_end), std::end(p.pads_end), spec.pads_end);
  spec.counts_pads = p.counts_pads;
  spec.inputs = static_cast<int>(shape.inputs.size());
  spec.epilogue = epilogue_of_terms(p.epilogue, p.operands);
  return spec;
}

bool is_contract_variant(const std::string& variant) {
  for (const char* prefix : {"mma", "wgmma", "tf32mma", "fma", "window", "attention"}) {
    if (variant.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

Offer offer_contract(const StepShape& shape) {
  Offer out;
  const bool attention = is_attention(*shape.step);
  const AttentionProblem scores = attention ? attention_problem(shape) : AttentionProblem{};
  const ContractProblem problem = attention ? ContractProblem{} : contract_problem(shape);
  out.reason = attention ? scores.reason : problem.reason;
  if (!out.reason.empty()) return out;
  const bool old =
      std::any_of(shape.architectures.begin(), shape.architectures.end(), [](int a) { return a < kLeastArchitecture; });
  if (old) {
    out.reason = "its kernels need sm_80 or later";
    return out;
  }
  std::vector<std::string> variants;
  const int processors = shape.device != nullptr ? shape.device->info().processors : kUsualProcessors;
  if (attention) {
    variants = attention_variants(scores, shape);
  } else if (problem.is_product()) {
    const bool groups =
        !shape.architectures.empty() &&
        std::all_of(shape.architectures.begin(), shape.architectures.end(), [](int a) { return a == 90; });
    std::vector<ContractTile> tiles = contract_tiles(problem, contract_spec(problem, shape),
                                                     may_use_tf32(*shape.program, *shape.step), processors, groups);
    if (problem.m < kManyRows || shape.device == nullptr) {  // what is not measured runs as it does everywhere
      std::stable_partition(tiles.begin(), tiles.end(),
                            [](const ContractTile& t) { return t.math != ContractMath::GROUP_16; });
    }
    for (const ContractTile& t : tiles) variants.push_back(t.to_string());
  } else {
    for (const WindowTile& t : window_tiles(problem, window_spec(problem, shape), processors)) {
      variants.push_back(t.to_string());
    }
  }
  for (const std::string& variant : variants) {
    Tactic tactic;
    tactic.provider = nvrtc_launcher().name();
    tactic.variant = variant;
    out.tactics.push_back(std::move(tactic));
  }
  return out;
}

namespace {

ContractCode attention_code(const StepShape& shape, const std::string& variant) {
  const AttentionProblem problem = attention_problem(shape);
  check_internal(problem.reason.empty(), "codegen: an offered step is no attention");
  const AttentionTile tile = AttentionTile::parse(variant);
  ContractCode code;
  code.text = emit_attention(attention_spec(problem, shape), tile);
  ContractData data;
  data.name = code.text.name;
  data.built_in = problem.built_in();
  data.threads = tile.threads();
  data.shared_bytes = code.text.shared_bytes;
  data.tile_m = tile.queries();
  code.operands.push_back({-1, kContractFormat, write_contract_data(data)});
  return code;
}

}  // namespace

ContractCode contract_code(const StepShape& shape, const std::string& variant) {
  if (is_attention(*shape.step)) return attention_code(shape, variant);
  const ContractProblem problem = contract_problem(shape);
  check_internal(problem.reason.empty(), "codegen: an offered step is no contraction");
  ContractCode code;
  ContractData data;
  int64_t packed_tile = 0;
  data.built_in = problem.built_in();
  if (problem.is_product()) {
    const ContractTile tile = ContractTile::parse(variant);
    code.text = emit_contract(contract_spec(problem, shape), tile);
    data.threads = code.text.threads;
    data.map_rows = code.text.maps ? tile.m : 0;
    data.cluster = tile.cluster;
    data.tile_m = tile.m;
    data.tile_n = tile.n;
    data.split = tile.split;
    if (tile.packed()) packed_tile = tile.n;
  } else {
    const WindowTile tile = WindowTile::parse(variant);
    const WindowSpec spec = window_spec(problem, shape);
    code.text = emit_window(spec, tile);
    data.threads = tile.threads;
    data.pixels = tile.pixels;
    data.rows = tile.rows;
    data.chunk = tile.chunk;
    data.across = tile.across;
    data.down = tile.down;
    data.channels = tile.channels;
  }
  data.name = code.text.name;
  data.shared_bytes = code.text.shared_bytes;
  code.operands.push_back({-1, kContractFormat, write_contract_data(data)});
  const bool weights = problem.weights && shape.constants[1] != nullptr;
  if (weights) {
    WeightLayout layout = weight_layout(problem, shape);
    layout.tile = packed_tile;
    code.operands.push_back({1, layout.to_string(), pack_weights(layout, *shape.constants[1])});
  }
  return code;
}

}  // namespace deepjit::nvrtc_gpu

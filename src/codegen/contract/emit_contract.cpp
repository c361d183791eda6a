#include <algorithm>
#include <numeric>

#include "base/sha256.h"
#include "codegen/contract/contract_emitter.h"
#include "codegen/cuda/emit_cuda_scalar.h"

namespace deepjit {

ContractEmitter::ContractEmitter(const ContractSpec& spec, const ContractTile& tile)
    : spec_(spec), tile_(tile), element_(cuda_memory_type(spec.type)), size_(spec.type == DType::FLOAT32 ? 4 : 2) {}

ContractText ContractEmitter::run(const std::string& name) {
  emit_arguments(name);
  if (tile_.packed()) {
    emit_packed();
  } else {
    emit_place();
    emit_loop();
    if (tile_.split > 1) {
      out_.line("__shared__ unsigned int before;");
      emit_split("before", "__syncthreads()", "return");
    }
    emit_result();
  }
  out_.close();
  return {name, out_.finish(), contract_shared_bytes(spec_, tile_), block_threads(), has_map()};
}

// ---- shared tiles -----------------------------------------------------------------------------------

int ContractEmitter::rows_of(const Operand& o) const { return o.form == Form::COLUMNS ? tile_.k : o.extent; }
int ContractEmitter::chunks_of(const Operand& o) const {
  return (o.form == Form::COLUMNS ? o.extent : tile_.k) / spec_.chunk();
}

int ContractEmitter::pitch_of(const Operand& o) const {
  const int plain = chunks_of(o) * 16;
  if (size_ == 2) return plain;
  return plain + (o.form == Form::COLUMNS ? 32 : 16);
}

int ContractEmitter::tile_bytes(const Operand& o) const { return pitch_of(o) * rows_of(o); }

// Where a chunk of 16 bytes lies. 16-bit tiles are swizzled, so that eight rows of one chunk lie in different banks.
std::string ContractEmitter::chunk_place(const Operand& o, const std::string& row, const std::string& chunk) const {
  if (size_ == 4) return fmt::format("({}) * {} + ({}) * 16", row, pitch_of(o), chunk);
  const int chunks = chunks_of(o);
  std::string twist;
  if (chunks >= 8)
    twist = fmt::format("(({}) & 7)", row);
  else if (chunks > 1)
    twist = fmt::format("((({}) >> {}) & {})", row, chunks == 4 ? 1 : 2, chunks - 1);
  const std::string place = twist.empty() ? "(" + chunk + ")" : fmt::format("((({}) ^ {}))", chunk, twist);
  return fmt::format("({}) * {} + {} * 16", row, pitch_of(o), place);
}

// ---- frame ------------------------------------------------------------------------------------------

const std::vector<std::string>& contract_numbers() {
  static const std::vector<std::string> names = {"n_m",   "n_n",        "n_k",       "lda", "ldb", "height",
                                                 "width", "out_height", "out_width", "b1",  "b2",  "as0",
                                                 "as1",   "as2",        "bs0",       "bs1", "bs2"};
  return names;
}

std::vector<EpilogueOperand> ContractEmitter::operands() const {
  std::vector<EpilogueOperand> all = spec_.epilogue.operands;
  all.insert(all.end(), spec_.prologue.operands.begin(), spec_.prologue.operands.end());
  return all;
}

void ContractEmitter::emit_arguments(const std::string& name) {
  const std::string cluster = tile_.cluster > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", tile_.cluster) : "";
  out_.line("extern \"C\" __global__ void {}__launch_bounds__({}) {}(", cluster, block_threads(), name);
  std::vector<std::string> types(static_cast<size_t>(spec_.inputs), "void");
  types[0] = types[1] = element_;
  for (const EpilogueOperand& o : operands()) {
    types[static_cast<size_t>(o.input)] = cuda_memory_type(o.dtype);
  }
  for (size_t i = 0; i < types.size(); ++i) out_.line("    const {}* in{},", types[i], i);
  out_.line("    {}* out, float* parts, unsigned int* arrived,", element_);
  std::string numbers;
  for (const std::string& n : contract_numbers()) numbers += (numbers.empty() ? "long long " : ", long long ") + n;
  for (size_t i = 0; i < operands().size(); ++i) {
    numbers += fmt::format(", long long x{0}_1, long long x{0}_2", i);
  }
  if (has_map()) numbers += ", const __grid_constant__ RowMap a_map";
  out_.open("    {})", numbers);
  out_.line("const int M = (int)n_m;");
  out_.line("const int N = {};", spec_.n ? std::to_string(*spec_.n) : "(int)n_n");
  out_.line("const int K = {};", spec_.k ? std::to_string(*spec_.k) : "(int)n_k");
  for (const char* n : {"height", "width", "out_height", "out_width"}) {
    if (spec_.a == Form::IMAGE) out_.line("const int {0}_ = (int){0};", n);
  }
}

// Which tile of which product, and which part of its k, this block computes.
void ContractEmitter::emit_place() {
  out_.line("const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;");
  out_.line("const int tiles_m = (M + {0} - 1) / {0}, tiles_n = (N + {1} - 1) / {1};", tile_.m, tile_.n);
  out_.line("int block = (int)blockIdx.x;");
  if (tile_.split > 1) out_.line("const int part = block % {0}; block /= {0};", tile_.split);
  out_.line("const int tile = block;");
  out_.line("const int n0 = block % tiles_n * {}; block /= tiles_n;", tile_.n);
  out_.line("const int m0 = block % tiles_m * {}; block /= tiles_m;", tile_.m);
  out_.line("const int batch = block;");
  out_.line("const {}* a = in0;", element_);
  out_.line("const {}* b = in1;", element_);
  if (spec_.batched) {
    out_.line("const long long i2 = batch % b2, i1 = batch / b2 % b1, i0 = batch / (b1 * b2);");
    out_.line("a += i0 * as0 + i1 * as1 + i2 * as2;");
    out_.line("b += i0 * bs0 + i1 * bs1 + i2 * bs2;");
  } else if (spec_.groups > 1) {
    out_.line("a += batch * {};", spec_.image.channels);
    out_.line("b += (long long)batch * N * ldb;");
  }
  out_.line("const int steps = (K + {0} - 1) / {0};", tile_.k);
  if (tile_.split > 1) {
    out_.line(
        "const int first = (int)((long long)steps * part / {0}), last = (int)((long long)steps * (part + 1) / {0});",
        tile_.split);
  } else {
    out_.line("const int first = 0, last = steps;");
  }
  out_.line("unsigned char* const memory = (unsigned char*){};",
            out_.call(in_groups() ? "swizzled_memory" : "row_memory", ""));
}

void ContractEmitter::emit_loop() {
  prepare_loads(a());
  prepare_loads(b());
  declare_sums();
  out_.line("int load_slot = 0, use_slot = 0;");
  out_.open("for (int step = first - {}; step < last; ++step)", lead());
  out_.open("if (step >= first)");
  out_.line("{};", out_.call("copies_left", std::to_string(lead() - 1)));
  if (!spec_.prologue.empty()) emit_prologue();
  if (in_groups()) out_.line("{};", out_.call("show_to_groups", ""));
  out_.line("__syncthreads();");
  out_.close();
  out_.line("const int ahead = step + {};", lead());
  out_.open("if (ahead < last)");
  const int stage = tile_bytes(a()) + tile_bytes(b());
  out_.line("unsigned char* const to_a = memory + load_slot * {};", stage);
  out_.line("unsigned char* const to_b = to_a + {};", tile_bytes(a()));
  emit_loads(a());
  emit_loads(b());
  out_.line("load_slot = load_slot + 1 == {} ? 0 : load_slot + 1;", tile_.stages);
  out_.close();
  out_.line("{};", out_.call("copies_end", ""));
  out_.line("if (step < first) continue;");
  out_.line("const unsigned char* const at_a = memory + use_slot * {};", stage);
  out_.line("const unsigned char* const at_b = at_a + {};", tile_bytes(a()));
  emit_products();
  out_.line("use_slot = use_slot + 1 == {} ? 0 : use_slot + 1;", tile_.stages);
  out_.close();
  if (in_groups()) settle_sums();
}

// ---- split along k ----------------------------------------------------------------------------------

// Each block, or team, leaves its sums in memory; the last to arrive adds up those of all, in their order, and the
// others leave. `meet` is a barrier of its threads.
void ContractEmitter::emit_split(const std::string& before, const std::string& meet, const std::string& leave) {
  out_.line("float* const all = parts + (long long)tile * {};", tile_.split * tile_.m * tile_.n);
  out_.line("float* const mine = all + part * {} + thread;", tile_.m * tile_.n);
  out_.line("#pragma unroll");
  out_.line("for (int i = 0; i < {}; ++i) mine[i * {}] = sums[i];", tile_.m * tile_.n / tile_.threads(),
            tile_.threads());
  out_.line("__threadfence();");
  out_.line("{};", meet);
  out_.line("if (thread == 0) {} = atomicAdd(&arrived[tile], 1u);", before);
  out_.line("{};", meet);
  out_.line("if ({} != {}u) {};", before, tile_.split - 1, leave);
  out_.line("__threadfence();");
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", tile_.m * tile_.n / tile_.threads());
  out_.line("const float* const from = all + thread + i * {};", tile_.threads());
  out_.line("float sum = __ldcg(from);");
  out_.line("for (int p = 1; p < {}; ++p) sum += __ldcg(from + p * {});", tile_.split, tile_.m * tile_.n);
  out_.line("sums[i] = sum;");
  out_.close();
  out_.line("if (thread == 0) arrived[tile] = 0;");
}

// ---- result -----------------------------------------------------------------------------------------

// The sums go through shared memory, so that a thread gets neighbouring columns.
void ContractEmitter::emit_result() {
  out_.line("float* const staged = (float*)memory;");
  out_.line("__syncthreads();");
  stage_sums();
  out_.line("__syncthreads();");
  declare_columns();
  const int chunk = spec_.chunk(), items = tile_.m * tile_.n / chunk, threads = tile_.threads();
  const int count = std::gcd(items / threads, chunks_at_once());
  out_.open("for (int item = thread; item < {}; item += {})", items, count * threads);
  for (int u = 0; u < count; ++u) {
    place_chunk(u, fmt::format("(item + {}) / {}", u * threads, tile_.n / chunk),
                fmt::format("(item + {}) % {} * {}", u * threads, tile_.n / chunk, chunk), "m0", "n0");
  }
  for (int u = 0; u < count; ++u) {
    finish_chunk(u, fmt::format("staged + row_{0} * {1} + column_{0}", u, contract_result_pitch(tile_)), "0");
  }
  out_.close();
}

void ContractEmitter::declare_columns() {
  out_.line("const long long columns = {};", spec_.groups > 1 ? fmt::format("(long long)N * {}", spec_.groups) : "N");
  out_.line("const bool whole = {};", whole_columns());
}

// Those that a thread works on side by side hide each other's loads.
int ContractEmitter::chunks_at_once() const {
  const auto& insts = spec_.epilogue.ir.insts;
  const bool heavy =
      std::any_of(insts.begin(), insts.end(), [](const Inst& inst) { return is_transcendental(inst.op); });
  return heavy ? 2 : 4;
}

// Chunk `u` of those that a thread works on side by side, in this row and from this column on, behind m and n: what the
// epilogue reads for it. Beyond the result that is what the first row or column has, and nothing is stored: so there
// are no branches, and chunks overlap.
void ContractEmitter::place_chunk(int u, const std::string& row, const std::string& column, const std::string& m,
                                  const std::string& n) {
  const int chunk = spec_.chunk();
  const bool grouped = spec_.groups > 1;
  out_.line("const int row_{0} = {1}, column_{0} = {2};", u, row, column);
  out_.line("const int m_{0} = {1} + row_{0}, n_{0} = {2} + column_{0};", u, m, n);
  out_.line("const bool there_{0} = m_{0} < M && n_{0} < N;", u);
  const std::string own_row = fmt::format("(m_{0} < M ? m_{0} : 0)", u);
  const std::string own_column = fmt::format("(n_{0} < N ? n_{0} : 0)", u);
  out_.line("const long long r_{} = {};", u, grouped ? own_row : "(long long)batch * M + " + own_row);
  out_.line("const long long c_{} = {};", u, grouped ? "(long long)batch * N + " + own_column : own_column);
  out_.line("const int valid_{0} = !there_{0} ? 0 : N - n_{0} < {1} ? N - n_{0} : {1};", u, chunk);
  const std::string suffix = fmt::format("_{}", u);
  for (size_t i = 0; i < spec_.epilogue.operands.size(); ++i) {
    emit_operand(i, "r" + suffix, "c" + suffix, "columns", suffix);
  }
}

// From its sums to its result. `from` says where the sums lie, by fours; where `swapped` is 1, their halves lie the
// other way round.
void ContractEmitter::finish_chunk(int u, const std::string& from, const std::string& swapped) {
  const int chunk = spec_.chunk();
  out_.line("float s_{}[{}];", u, chunk);
  const std::string four = out_.vector_type(DType::FLOAT32, 4);
  for (int part = 0; part < chunk / 4; ++part) {
    const std::string place = swapped == "0" ? std::to_string(part * 4) : fmt::format("({} ^ {}) * 4", swapped, part);
    out_.line("const {0} part_{1}_{2} = *(const {0}*)({3} + {4});", four, u, part, from, place);
    for (int k = 0; k < 4; ++k) out_.line("s_{0}[{1}] = part_{0}_{2}.at[{3}];", u, part * 4 + k, part, k);
  }
  out_.line("{} y_{}[{}];", vector_align(spec_.type), u, chunk);
  out_.open_lanes(chunk);
  const std::string value = emit_epilogue_element(
      out_, spec_.epilogue, spec_.type, fmt::format("s_{}[k]", u),
      [&](size_t i) { return fmt::format("e{}_{}", i, u) + (spec_.epilogue.operands[i].columns ? "[k]" : ""); });
  out_.line("y_{}[k] = {};", u, cuda_text::to_memory(out_, value, spec_.type));
  out_.close();
  out_.line("{0}* const to_{1} = out + r_{1} * columns + c_{1};", element_, u);
  out_.line("if (whole && there_{0}) *(Chunk16*)to_{0} = *(const Chunk16*)y_{0};", u);
  out_.line("if (!whole) for (int k = 0; k < {0}; ++k) if (k < valid_{1}) to_{1}[k] = y_{1}[k];", chunk, u);
  out_.call("Chunk16", "");
}

std::string ContractEmitter::vector_align(DType type) const {
  return fmt::format("__align__(16) {}", cuda_memory_type(type));
}

// Do all chunks of columns lie whole in the rows, and aligned?
std::string ContractEmitter::whole_columns() const {
  const int chunk = spec_.chunk();
  const std::string known = spec_.n ? (*spec_.n % chunk == 0 ? "true" : "false") : fmt::format("N % {} == 0", chunk);
  return known;
}

// One of operands() for a chunk of columns, `valid` of which there are; `whole`: they lie whole and aligned. Its name,
// and that of `valid`, end with the suffix.
void ContractEmitter::emit_operand(size_t i, const std::string& row, const std::string& column,
                                   const std::string& columns, const std::string& suffix) {
  const EpilogueOperand o = operands()[i];
  const std::string type = cuda_memory_type(o.dtype), name = std::to_string(i) + suffix;
  out_.line("const {}* const p{} = in{} + {}{};", type, name, o.input, epilogue_row_offset(o, i, row, columns),
            o.columns ? " + " + column : "");
  if (!o.columns) return out_.line("const {} e{} = *p{};", type, name, name);
  const int chunk = spec_.chunk();
  const int vectors = chunk * static_cast<int>(dtype_size(o.dtype)) / 16;
  out_.line("{} e{}[{}];", vector_align(o.dtype), name, chunk);
  if (vectors > 0) {
    out_.open("if (whole)");
    for (int v = 0; v < vectors; ++v) {
      out_.line("((Chunk16*)e{0})[{1}] = ((const Chunk16*)p{0})[{1}];", name, v);
    }
    out_.otherwise();
  }
  out_.line("for (int k = 0; k < {0}; ++k) e{1}[k] = k < valid{2} ? p{1}[k] : ({3})0;", chunk, name, suffix, type);
  if (vectors > 0) out_.close();
}

// ---- entry ------------------------------------------------------------------------------------------

ContractText emit_contract(const ContractSpec& spec, const ContractTile& tile) {
  check_internal(why_not_tile(spec, tile).empty(), "codegen: a tile that does not fit its product");
  // The name is that of the text, which differs wherever two kernels do.
  const std::string text = ContractEmitter(spec, tile).run("contract").source;
  return ContractEmitter(spec, tile).run("contract_" + sha256_hex(text).substr(0, 12));
}

std::string contract_emitter_version() { return "contract 7"; }

}  // namespace deepjit

// Einsum: any number of operands, repeated letters, ellipsis, implicit output.
//
// Two operands run as one batched matrix product where every letter is a batch, row, column or summed letter;
// everything else as nested loops over all letters.
#include <algorithm>
#include <map>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/linear/gemm.h"
#include "ops/linear/matmul.h"

namespace deepjit {

namespace {

// Letters as numbers: 'a'..'z', 'A'..'Z' keep their codes; the dims of "..." are -1 (last), -2, ...
using Term = std::vector<int>;

struct Equation {
  std::vector<Term> inputs;
  Term output;
};

[[noreturn]] void bad_equation(const std::string& text, const std::string& why) {
  throw Error(Code::ATTRIBUTE, "Einsum equation \"" + text + "\": " + why);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// One operand's part of the equation; `ellipsis` is how many dims "..." stands for.
Term parse_term(const std::string& text, const std::string& equation, int ellipsis) {
  Term term;
  bool seen = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_letter(text[i])) {
      term.push_back(text[i]);
    } else if (text.compare(i, 3, "...") == 0 && !seen) {
      for (int k = ellipsis; k > 0; --k) term.push_back(-k);
      seen = true;
      i += 2;
    } else {
      bad_equation(equation, std::string("unexpected \"") + text[i] + "\"");
    }
  }
  return term;
}

int ellipsis_rank(const std::string& text, const std::string& equation, int rank) {
  const int letters = static_cast<int>(std::count_if(text.begin(), text.end(), is_letter));
  const bool has = text.find('.') != std::string::npos;
  if (letters > rank || (!has && letters != rank)) {
    bad_equation(equation, "\"" + text + "\" does not fit an operand of rank " + std::to_string(rank));
  }
  return has ? rank - letters : 0;
}

// Without "->": the ellipsis first, then the letters that occur once, in order.
Term implicit_output(const std::vector<Term>& inputs, int ellipsis) {
  std::map<int, int> uses;
  for (const Term& term : inputs) {
    for (int letter : term) ++uses[letter];
  }
  Term out;
  for (int k = ellipsis; k > 0; --k) out.push_back(-k);
  for (const auto& [letter, count] : uses) {
    if (letter > 0 && count == 1) out.push_back(letter);
  }
  return out;
}

Equation parse_equation(const Attributes& attrs, const std::vector<int>& ranks) {
  std::string text = attrs.get_string("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  std::vector<std::string> parts(1);
  for (char c : text.substr(0, arrow)) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() != ranks.size()) {
    bad_equation(text, std::to_string(parts.size()) + " operands named, " + std::to_string(ranks.size()) + " given");
  }
  Equation e;
  int ellipsis = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int own = ellipsis_rank(parts[i], text, ranks[i]);
    ellipsis = std::max(ellipsis, own);
    e.inputs.push_back(parse_term(parts[i], text, own));
  }
  if (arrow == std::string::npos) {
    e.output = implicit_output(e.inputs, ellipsis);
    return e;
  }
  e.output = parse_term(text.substr(arrow + 2), text, ellipsis);
  for (size_t i = 0; i < e.output.size(); ++i) {
    const int letter = e.output[i];
    const bool known = std::any_of(e.inputs.begin(), e.inputs.end(),
                                   [&](const Term& t) { return std::find(t.begin(), t.end(), letter) != t.end(); });
    if (!known) bad_equation(text, std::string("\"") + static_cast<char>(letter) + "\" is in no operand");
    if (std::count(e.output.begin(), e.output.end(), letter) > 1) {
      bad_equation(text, std::string("\"") + static_cast<char>(letter) + "\" is twice in the output");
    }
  }
  return e;
}

// One loop over a letter: its size and every operand's stride along it (the output is the last one).
struct Loop {
  int letter;
  int64_t size;
  std::vector<int64_t> strides;
};

int64_t stride_of(const Term& term, const Dims& dims, int letter) {
  const Dims own = dims.strides();
  int64_t stride = 0;
  for (int i = 0; i < dims.rank(); ++i) {
    if (term[static_cast<size_t>(i)] == letter && dims[i] != 1) stride += own[i];  // a repeated letter: the diagonal
  }
  return stride;
}

// Sizes of all letters; a size of 1 broadcasts.
std::map<int, int64_t> letter_sizes(const Equation& e, const std::vector<Dims>& dims) {
  std::map<int, int64_t> sizes;
  for (size_t k = 0; k < e.inputs.size(); ++k) {
    for (int i = 0; i < dims[k].rank(); ++i) {
      auto [it, added] = sizes.emplace(e.inputs[k][static_cast<size_t>(i)], dims[k][i]);
      if (added || it->second == dims[k][i] || dims[k][i] == 1) continue;
      if (it->second != 1) {
        throw Error(Code::SHAPE_MISMATCH, "Einsum: one letter has the sizes " + std::to_string(it->second) + " and " +
                                              std::to_string(dims[k][i]));
      }
      it->second = dims[k][i];
    }
  }
  return sizes;
}

// Output letters first, then the summed ones.
std::vector<Loop> plan_loops(const Equation& e, const std::vector<Dims>& dims, const Dims& result,
                             std::map<int, int64_t> sizes) {
  std::vector<int> order = e.output;
  for (const auto& [letter, size] : sizes) {
    if (std::find(order.begin(), order.end(), letter) == order.end()) order.push_back(letter);
  }
  std::vector<Loop> loops;
  for (int letter : order) {
    Loop loop{letter, sizes[letter], {}};
    for (size_t k = 0; k < dims.size(); ++k) loop.strides.push_back(stride_of(e.inputs[k], dims[k], letter));
    loop.strides.push_back(stride_of(e.output, result, letter));
    loops.push_back(loop);
  }
  return loops;
}

template <typename T>
void run_loops(const std::vector<Loop>& loops, std::vector<const T*> in, T* out, size_t depth) {
  const size_t operands = in.size();
  if (depth == loops.size()) {
    T product = *in[0];
    for (size_t k = 1; k < operands; ++k) product *= *in[k];
    *out += product;
    return;
  }
  const Loop& loop = loops[depth];
  const bool innermost = depth + 1 == loops.size();
  for (int64_t i = 0; i < loop.size; ++i) {
    if (innermost) {
      T product = *in[0];
      for (size_t k = 1; k < operands; ++k) product *= *in[k];
      *out += product;
    } else {
      run_loops(loops, in, out, depth + 1);
    }
    for (size_t k = 0; k < operands; ++k) in[k] += loop.strides[k];
    out += loop.strides[operands];
  }
}

// Runs two operands as products of matrices when the letters allow it: the last output letter as columns, the
// last other output letter of the first operand as rows, one summed letter of both as the inner dim.
template <typename T>
bool run_as_product(const std::vector<Loop>& loops, const Term& output, const T* a, const T* b, T* out) {
  const Loop *row = nullptr, *column = nullptr, *inner = nullptr;
  for (const Loop& loop : loops) {
    const bool in_a = loop.strides[0] != 0, in_b = loop.strides[1] != 0;
    const bool kept = std::find(output.begin(), output.end(), loop.letter) != output.end();
    if (kept && in_a && !in_b) row = &loop;
    if (kept && in_b && !in_a) column = &loop;
    if (!kept && in_a && in_b && (inner == nullptr || loop.size > inner->size)) inner = &loop;
  }
  if (row == nullptr || column == nullptr || inner == nullptr) return false;
  bool swapped = false;
  MatrixRef<T> left{a, row->strides[0], inner->strides[0]}, right{b, inner->strides[1], column->strides[1]};
  if (column->strides[2] != 1) {  // gemm needs contiguous result rows: try the transposed product
    if (row->strides[2] != 1) return false;
    swapped = true;
    std::swap(row, column);
    left = {b, row->strides[1], inner->strides[1]};
    right = {a, inner->strides[0], column->strides[0]};
  }
  std::vector<const Loop*> outer;
  int64_t count = 1;
  for (const Loop& loop : loops) {
    if (&loop == row || &loop == column || &loop == inner) continue;
    outer.push_back(&loop);
    count *= loop.size;
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, offset[3] = {0, 0, 0};
    for (size_t d = outer.size(); d-- > 0;) {
      for (size_t k = 0; k < 3; ++k) offset[k] += rest % outer[d]->size * outer[d]->strides[k];
      rest /= outer[d]->size;
    }
    MatrixRef<T> l = left, r = right;
    l.data += offset[swapped ? 1 : 0];
    r.data += offset[swapped ? 0 : 1];
    gemm<T>(row->size, column->size, inner->size, l, r, out + offset[2], row->strides[2], true);
  }
  return true;
}

template <typename T>
void run_einsum(const Equation& e, const std::vector<Dims>& dims, const Dims& result,
                const std::map<int, int64_t>& sizes, const std::vector<const T*>& in, T* out) {
  std::fill_n(out, result.count(), T(0));
  for (const auto& [letter, size] : sizes) {
    if (size == 0) return;
  }
  const std::vector<Loop> loops = plan_loops(e, dims, result, sizes);
  if constexpr (std::is_floating_point_v<T> || sizeof(T) >= 4) {
    if (in.size() == 2 && run_as_product(loops, e.output, in[0], in[1], out)) return;
  }
  run_loops(loops, in, out, 0);
}

void evaluate_einsum(EvalContext& ctx) {
  std::vector<Dims> dims;
  std::vector<int> ranks;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    dims.push_back(ctx.dims(i));
    ranks.push_back(ctx.dims(i).rank());
  }
  const Equation e = parse_equation(ctx.attrs(), ranks);
  const std::map<int, int64_t> sizes = letter_sizes(e, dims);
  Dims result;
  for (int letter : e.output) result.push_back(sizes.at(letter));
  const DType dtype = ctx.dtype(0);
  if (is_integer(dtype)) {
    return visit_integer(dtype, "Einsum", [&]<typename T>() {
      std::vector<const T*> in;
      for (int i = 0; i < ctx.num_inputs(); ++i) in.push_back(ctx.data<const T>(i));
      run_einsum(e, dims, result, sizes, in, ctx.output(0, dtype, result).as<T>());
    });
  }
  visit_compute(dtype, "Einsum", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, dtype, result);
    std::vector<const C*> in;
    for (int i = 0; i < ctx.num_inputs(); ++i) in.push_back(read_compute<C>(ctx, i));
    run_einsum(e, dims, result, sizes, in, out.data());
    out.finish();
  });
}

void infer_einsum(InferContext& ctx) {
  expect_numeric(ctx, "Einsum", 0);
  std::vector<int> ranks;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (ctx.dtype(i) != ctx.dtype(0)) throw Error(Code::TYPE, "Einsum operands have different element types");
    if (!ctx.shape(i).ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
    ranks.push_back(ctx.shape(i).rank());
  }
  const Equation e = parse_equation(ctx.attrs(), ranks);
  std::map<int, Dim> sizes;
  for (int k = 0; k < ctx.num_inputs(); ++k) {
    for (int i = 0; i < ctx.shape(k).rank(); ++i) {
      const Dim& d = ctx.shape(k)[i];
      auto [it, added] = sizes.emplace(e.inputs[static_cast<size_t>(k)][static_cast<size_t>(i)], d);
      if (!added) it->second = broadcast_dim(ctx, it->second, d);
    }
  }
  std::vector<Dim> out;
  for (int letter : e.output) out.push_back(sizes.at(letter));
  ctx.set_output(0, ctx.dtype(0), Shape(out));
}

}  // namespace

void add_einsum_op(OpRegistry& registry) {
  registry.add({.name = "Einsum", .max_inputs = kMany, .infer = infer_einsum, .evaluate = evaluate_einsum});
}

}  // namespace deepjit

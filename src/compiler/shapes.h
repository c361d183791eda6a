// Concrete shapes for the symbolic inputs of a program: what to tune and plan for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/binding.h"
#include "tune/tuner.h"

namespace deepjit {

// A range against the input that it is for: its rank, its order, dims that the model fixes. Throws ARGUMENT.
void check_range(const std::string& input, const TensorType& type, const ShapeRange& range);

// The ranges of one program, by input name.
using RangeSet = std::map<std::string, ShapeRange>;

// Of an engine with several ranges, one set each: the k-th range of every input that has more than one, and the only
// one of the others. `more` holds those after the first, see BuildOptions. ARGUMENT when inputs have different numbers.
std::vector<RangeSet> range_sets(const RangeSet& first, const std::map<std::string, std::vector<ShapeRange>>& more);

// Checks ranges against the graph's inputs (ARGUMENT) and makes dims that all sets fix to one number (min = max)
// constant in the whole graph.
void apply_ranges(Graph& graph, const std::vector<RangeSet>& sets);
// Gives the program the first set, and a copy of it the ranges of each further one; see program/ranges.h.
void set_ranges(Program& program, const std::vector<RangeSet>& sets);

enum class Which { OPT, MAX };

// The shapes of one trial: one a program input.
using InputShapes = std::vector<TensorDesc>;

// Shapes from the ranges; inputs without one get guesses (batch 1, then usual image and sequence sizes),
// several trials in order of likelihood. `guessed` tells whether any dim was a guess.
std::vector<InputShapes> candidate_shapes(const Program& program, Which which, bool* guessed);

// Binds `program` at each trial and keeps the one that fits and reaches most steps: one task a step. When none
// fits, `failure` says why the best one does not, and the steps that it reached are there all the same.
struct Probe {
  std::vector<TuneTask> tasks;
  InputShapes shapes;
  size_t arena_bytes = 0;
  size_t arena_lower_bound = 0;
  std::string failure;
};
Probe probe(const Program& program, Which which, int threads, bool* guessed);

// Steps that one run at these shapes launches, by their tactics; those in bodies left out. Nothing when they do not
// fit.
std::optional<size_t> count_launches(const Program& program, const InputShapes& shapes, int threads);

}  // namespace deepjit

// The builder behind region.h: one region, one set of cuts. The box, and values at coordinates (region.cpp), rows
// (region_row.cpp), views (region_view_eval.cpp, region_gather.cpp, region_resize.cpp), what parts of a Concat share
// (region_apart.cpp), memory and the end (region_memory.cpp).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "codegen/region/coordinate.h"
#include "codegen/region/region.h"

namespace deepjit {

// A dim that the box counts through: one axis, or several after cuts.
struct Root {
  Dim extent;
  std::vector<int> axes;  // outermost first
};

// Root -> the extents that it is cut into, outermost first.
using Cuts = std::map<int, std::vector<Dim>>;

class RegionBuilder {
 public:
  RegionBuilder(const Region& region, const Cuts& cuts);
  KernelIr run();

  // Which root an axis belongs to, and its place there.
  std::pair<int, size_t> root_of(int axis) const;
  const std::vector<Dim>& extents() const { return extents_; }

 private:
  using Ref = IrBuilder::Ref;

  // One dim that reductions go along, and the coordinate that walks it.
  struct RowDim {
    Dim extent;
    Coord walk;
    std::vector<int> axes;
    bool operator==(const RowDim& o) const { return extent == o.extent && axes == o.axes; }
  };
  using Row = std::vector<RowDim>;

  struct Evaluation {
    Coords coords;
    Ref guard;
    Ref ref;
  };
  const TensorType& type(int value) const { return region_.values[static_cast<size_t>(value)]; }
  const Shape& shape(int value) const { return type(value).shape; }

  // ---- the box --------------------------------------------------------------------------------------

  // The output with the most dims; the others must fit into its box.
  int main_output() const;

  // A new dim of the box and the coordinate that walks it.
  Coord new_root(const Dim& extent);
  Coords new_box(const Shape& of);

  // ---- values at coordinates ------------------------------------------------------------------------

  // The value at a point of the box. Where `guard` (a BOOL instruction, or -1) is false, any value will do and no
  // memory is touched.
  Ref eval(int value, const Coords& coords, Ref guard);

  // Work that is done at several places of the box instead of once.
  void count_again(size_t before);

  // Where operand i of an op is read: laid over the result from the right, or where the rule says.
  Coords operand_coords(const RegionOp& op, const ExpandRule& rule, size_t i, const Coords& result) const;
  // What op reads must not be the result of a QuantizeLinear of the region, moved by views or not.
  void check_stored_before(const RegionOp& op, int value) const;
  Ref eval_op(const RegionOp& op, const Coords& coords, Ref guard);

  // The place within the row, all its dims counted as one.
  Ref row_index();

  // Where the operand of a reduction, softmax or norm is read: along the row, and elsewhere as the result.
  Coords row_coords(const RegionOp& op, const ExpandRule& rule, const Coords& result);

  // The axes that a reduction over these dims goes along, when its result is read along `kept`.
  void choose_row(const std::vector<Dim>& dims, const std::vector<int>& kept);
  Coord walk_of(const Root& root) const;
  void use_row(Row row);
  bool is_row_axis(int axis) const;

  // ---- views ----------------------------------------------------------------------------------------

  Ref eval_view(const RegionOp& op, const Coords& coords, Ref guard);
  Ref eval_concat(const RegionOp& op, const Coords& coords, Ref guard);
  Ref eval_pad(const RegionOp& op, const Coords& coords, Ref guard);
  Ref eval_trilu(const RegionOp& op, const Coords& coords, Ref guard);
  Ref eval_gather(const RegionOp& op, const Coords& coords, Ref guard);
  Ref eval_gather_elements(const RegionOp& op, const Coords& coords, Ref guard);
  // Where a Gather reads along a dim of this size, by its indices at `where`.
  Coord place_told(const RegionOp& op, const Coords& where, const Dim& size, Ref guard);
  // Lets the launch look through the indices; refuses where it cannot.
  void check_indices(const RegionOp& op, const Dim& size);
  // The axes that the coordinates vary along, those of computed indices among them.
  std::vector<int> moving_axes(const Coords& coords) const;
  Ref eval_resize(const RegionOp& op, const Coords& coords, Ref guard);
  Ref less(Ref a, Ref b) { return builder_.binary(Opcode::LT, a, b); }
  Ref at_least_zero(Ref a) { return builder_.binary(Opcode::LE, builder_.constant(0, DType::INT64), a); }
  Ref both(Ref a, Ref b) { return a < 0 ? b : b < 0 ? a : builder_.binary(Opcode::AND, a, b); }
  Ref size(const Dim& d) { return builder_.size(quantity(d)); }

  // The coordinate as an INT64 instruction.
  Ref index(const Coord& c);

  // ---- values at places that exclude each other -----------------------------------------------------

  // The evaluations of one value for parts of a Concat.
  struct Apart {
    std::vector<Ref> refs;
    std::vector<Ref> conditions;  // of all but the last: where it holds, none behind counts
    Ref guard;                    // of the last
  };
  // Where part i of a Concat ends no later part has begun.
  void note_parts(const std::vector<Ref>& before_end, const std::vector<Ref>& from_begin);
  bool joins(const Apart& group, const std::vector<Ref>& given, Ref& last) const;
  // Is the value, now evaluated again, wanted only where its other evaluations of some group are not?
  bool is_apart(int value, Ref guard, Ref ref);
  void merge_apart();

  // ---- memory ---------------------------------------------------------------------------------------

  // A dim of an operand for each symbolic size.
  void name_sizes();

  // A product of sizes as the launcher computes it from the operands' dims. Symbols come first, so that N * C is the
  // same quantity whether or not some operand has a dim of that size.
  Quantity quantity(const Dim& d) const;

  // Elements from one place to the next along each dim of a value that lies in memory.
  std::vector<Quantity> steps_of(int value) const;
  // The index map of an operand that is read or written at these coordinates.
  Access access(int value, const Coords& coords, int operand) const;
  Ref read(int value, const Coords& coords, Ref guard);
  void add_store(int value, Ref ref, const Coords& coords);

  // An output beside the main one: stored where the others read it whole, or laid over the main one's dims in order.
  void store_beside(int value, int main);
  Coords coords_like_main(int value, int main) const;

  // ---- the end --------------------------------------------------------------------------------------

  // Puts the axes in order, the row last, and merges neighbours that all operands walk as one.
  void finish();

  // Are more operands dense along the axis before the row than along the row?
  static bool prefers_lanes(const KernelIr& kernel);

  // Every result, and every reduction, must vary along all outer axes: else it would be made again and again.
  void check_outer(const std::vector<int>& outer) const;
  const Region& region_;
  const Cuts& cuts_;
  IrBuilder builder_;
  std::map<int, int> producer_;  // value -> op
  std::map<int, int> operand_;   // value from outside -> operand
  std::vector<std::pair<Dim, Quantity>> names_;
  std::vector<Root> roots_;
  std::vector<Dim> extents_;  // of each axis
  Coords main_coords_;
  std::optional<Row> row_;  // what reductions go along
  std::map<int, std::vector<Evaluation>> known_;
  std::vector<std::vector<int>> reductions_;  // the axes that each reduction's result varies along
  std::vector<std::vector<int>> stored_;      // the axes that each store varies along
  int again_ = 0;
  std::set<std::pair<Ref, Ref>> exclude_;  // conditions of which one holds at most
  std::map<int, std::vector<Apart>> apart_;
};

}  // namespace deepjit

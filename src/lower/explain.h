// The words of the why-ledger: rules that two nodes decide by what they are, and what to change for a rule in terms of
// the model's own inputs and nodes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/refusal.h"
#include "lower/edges.h"
#include "program/program.h"

namespace deepjit {

// A convolution or product, which a library runs.
bool is_library_op(const std::string& op);

// Why the node is in no region, in more words than that there is no rule for its op.
Refusal why_not_generated(const Node& node, Refusal refusal);

// Why the edge stays whatever regions there are: bodies, shapes from data, libraries. Empty where regions decide.
Refusal why_by_nodes(const Edge& edge);

// The nodes of a kernel that was refused, for words and fix: its reductions, its Transposes.
Refusal with_nodes(Refusal refusal, const std::vector<const Node*>& nodes);

// Where the dims of a graph come from.
class DimOrigins {
 public:
  explicit DimOrigins(const Graph& graph);  // any graph of the model
  // The refusal's fix, or one that names inputs and dims.
  std::string fix_for(const Refusal& refusal) const;

 private:
  std::string where(const Dim& dim) const;
  // The operands' dims that a broadcast joined into this one; itself when no broadcast made it.
  std::vector<Dim> joined(const Dim& dim) const;

  std::map<std::string, std::string> inputs_;  // symbol -> "dim 1 of input x"
  std::map<std::string, const Node*> nodes_;   // symbol -> the first node whose results have it
};

}  // namespace deepjit

// Which steps of a program stand for nodes of the user's ops.
//
// The metadata hold it, so that engines know it too: "model.op.NAME" is an op's definition, "model.op_nodes.NAME" the
// names of its nodes, as the origins of steps have them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace deepjit {

inline constexpr const char* kUserOpKey = "model.op.";
inline constexpr const char* kUserOpNodesKey = "model.op_nodes.";

void note_user_op(Program& program, const std::string& name, const std::string& definition,
                  const std::vector<std::string>& nodes);

// For people: "" or " of my.ops::Swish, my.ops::Gate".
std::string of_user_ops(const std::vector<std::string>& names);

class UserOpNames {
 public:
  explicit UserOpNames(const Program& program);
  // Those among the step's origins, each once, in their order: {"my.ops::Swish"}.
  std::vector<std::string> of(const Step& step) const;
  std::string text(const Step& step) const { return of_user_ops(of(step)); }

 private:
  std::map<std::string, std::string> ops_;  // by node
};

}  // namespace deepjit

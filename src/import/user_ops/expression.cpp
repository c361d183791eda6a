#include "import/user_ops/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/limits.h"

namespace deepjit {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Token {
  enum class Kind { NUMBER, NAME, SIGN, END_OF_STATEMENT, END };
  Kind kind = Kind::END;
  std::string text;
  double number = 0;
  size_t at = 0;
};

// Words, numbers and signs; a line ends a statement unless parentheses are open.
class Tokens {
 public:
  explicit Tokens(const std::string& text) : text_(text) {}

  Token next() {
    skip_blanks();
    Token token;
    token.at = at_;
    if (at_ >= text_.size()) return token;
    const char c = text_[at_];
    if (c == '\n' || c == ';') {
      ++at_;
      token.kind = Token::Kind::END_OF_STATEMENT;
    } else if (is_letter(c)) {
      const size_t start = at_;
      while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
      token.kind = Token::Kind::NAME;
      token.text = text_.substr(start, at_ - start);
    } else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      number(token);
    } else {
      sign(token);
    }
    return token;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && open_ > 0)) {
        ++at_;
      } else {
        return;
      }
    }
  }

  void number(Token& token) {
    const char* end = text_.data() + text_.size();
    const auto [stop, failure] = std::from_chars(text_.data() + at_, end, token.number);
    const auto length = static_cast<size_t>(stop - text_.data()) - at_;
    if (failure == std::errc::result_out_of_range) {
      fail_at(text_, at_, "this number is too large or too small", "inf is a number too");
    }
    if (failure != std::errc() || (stop != end && is_letter(*stop))) {
      fail_at(text_, at_, "this is no number", "numbers are like 3, 0.5 and 1e-6");
    }
    token.kind = Token::Kind::NUMBER;
    at_ += length;
  }

  void sign(Token& token) {
    token.kind = Token::Kind::SIGN;
    for (const char* two : {"**", "==", "!=", "<=", ">="}) {
      if (text_.compare(at_, 2, two) == 0) token.text = two;
    }
    if (token.text.empty() && std::string("+-*/<>()=,").find(text_[at_]) != std::string::npos) {
      token.text = text_.substr(at_, 1);
    }
    if (token.text.empty()) {
      fail_at(text_, at_, "this character has no meaning here",
              "there are + - * / ** == != < <= > >= and or not ( ) , = and names and numbers");
    }
    if (token.text == "(") ++open_;
    if (token.text == ")") --open_;
    at_ += token.text.size();
  }

  const std::string& text_;
  size_t at_ = 0;
  int open_ = 0;
};

class Parser {
 public:
  Parser(const std::string& text, const ExpressionNames& names) : text_(text), names_(names) {
    Tokens tokens(text);
    do tokens_.push_back(tokens.next());
    while (tokens_.back().kind != Token::Kind::END);
  }

  Expression run() {
    while (token().kind != Token::Kind::END) statement();
    for (const std::string& output : names_.outputs) {
      const auto found = defined_.find(output);
      if (found == defined_.end()) {
        fail_at(text_, text_.size(), "nothing defines the output \"" + output + "\"", "write \"" + output + " = ...\"");
      }
      out_.results.push_back(found->second);
    }
    return std::move(out_);
  }

 private:
  const Token& token() const { return tokens_[at_]; }
  void advance() { at_ += at_ + 1 < tokens_.size(); }
  bool is(const char* sign) const { return token().kind == Token::Kind::SIGN && token().text == sign; }
  bool is_word(const char* word) const { return token().kind == Token::Kind::NAME && token().text == word; }
  bool ends() const { return token().kind == Token::Kind::END_OF_STATEMENT || token().kind == Token::Kind::END; }
  void expect(const char* sign, const std::string& why) {
    if (!is(sign)) fail_at(text_, token().at, std::string("a \"") + sign + "\" is missing here", why);
    advance();
  }

  void statement() {
    if (token().kind == Token::Kind::END_OF_STATEMENT) return advance();
    const Token first = token();
    const bool named = first.kind == Token::Kind::NAME && tokens_[at_ + 1].text == "=";
    if (named) {
      check_new(first);
      at_ += 2;
    }
    const size_t value = any();
    if (!ends()) {
      const bool condition = is_word("if") || is_word("else");
      fail_at(text_, token().at, "an operator or the end of the statement is missing here",
              condition ? "a choice is written where(condition, a, b)" : "statements end with a line or a semicolon");
    }
    while (token().kind == Token::Kind::END_OF_STATEMENT) advance();
    const bool last = token().kind == Token::Kind::END;
    if (!named && !(last && names_.outputs.size() == 1 && defined_.count(names_.outputs[0]) == 0)) {
      fail_at(text_, first.at, "the value of this statement has no name", "write NAME = ...");
    }
    defined_[named ? first.text : names_.outputs[0]] = value;
  }

  void check_new(const Token& name) const {
    if (is_value(name.text) || !is_expression_name(name.text)) {
      fail_at(text_, name.at, "\"" + name.text + "\" has a meaning already", "define another name; " + known());
    }
  }

  struct Deeper {
    explicit Deeper(Parser& parser, size_t at) : parser(parser) {
      if (++parser.nest_ > limits::graph_depth) {
        throw Error(Code::DEPTH, "an expression nests deeper than " + std::to_string(limits::graph_depth) + " levels",
                    "give a part of it a name");
      }
    }
    ~Deeper() { --parser.nest_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Parser& parser;
  };

  size_t any() {
    const Deeper deeper(*this, token().at);
    size_t left = conjunction();
    while (is_word("or")) left = operation(left, &Parser::conjunction);
    return left;
  }
  size_t conjunction() {
    size_t left = negation();
    while (is_word("and")) left = operation(left, &Parser::negation);
    return left;
  }
  size_t negation() {
    if (!is_word("not")) return comparison();
    const Deeper deeper(*this, token().at);
    const size_t at = token().at;
    advance();
    return call("not", {negation()}, at);
  }
  size_t comparison() {
    const size_t left = sum();
    for (const char* sign : {"==", "<", "<=", ">", ">="}) {
      if (is(sign)) return operation(left, &Parser::sum);
    }
    if (!is("!=")) return left;
    const size_t at = token().at;
    advance();
    return call("not", {call("==", {left, sum()}, at)}, at);
  }
  size_t sum() {
    size_t left = product();
    while (is("+") || is("-")) left = operation(left, &Parser::product);
    return left;
  }
  size_t product() {
    size_t left = signed_power();
    while (is("*") || is("/")) left = operation(left, &Parser::signed_power);
    return left;
  }
  size_t signed_power() {
    const Deeper deeper(*this, token().at);
    const size_t at = token().at;
    if (is("+")) {
      advance();
      return signed_power();
    }
    if (is("-")) {
      advance();
      return call("neg", {signed_power()}, at);
    }
    const size_t base = primary();
    return is("**") ? operation(base, &Parser::signed_power) : base;
  }

  size_t operation(size_t left, size_t (Parser::*right)()) {
    const std::string name = token().text;
    const size_t at = token().at;
    advance();
    return call(name, {left, (this->*right)()}, at);
  }

  size_t primary() {
    const Token token = this->token();
    if (token.kind == Token::Kind::NUMBER) {
      advance();
      return number(token.number, token.at);
    }
    if (is("(")) {
      advance();
      const size_t inside = any();
      expect(")", "it was opened in column " + std::to_string(token.at + 1));
      return inside;
    }
    if (token.kind != Token::Kind::NAME || is_word("and") || is_word("or")) {
      fail_at(text_, token.at, "a value is missing here", known());
    }
    advance();
    return is("(") ? function(token) : value(token);
  }

  size_t function(const Token& name) {
    const UserFunction* found = find_function(name.text);
    if (found == nullptr) no_function(name);
    advance();
    std::vector<size_t> operands;
    while (!is(")")) {
      if (!operands.empty()) expect(",", "operands of " + name.text + " are separated by commas");
      operands.push_back(any());
    }
    advance();
    if (operands.size() < found->least || operands.size() > found->most) {
      fail_at(text_, name.at,
              name.text + " takes " + found->arity() + " operands, not " + std::to_string(operands.size()));
    }
    return call(name.text, std::move(operands), name.at);
  }

  [[noreturn]] void no_function(const Token& name) const {
    if (name.text == names_.op) {
      fail_at(text_, name.at, "an op cannot call itself", "write out what it computes: there is no recursion");
    }
    if (is_value(name.text)) {
      fail_at(text_, name.at, "\"" + name.text + "\" is a value, not a function",
              "a product is " + name.text + " * (...)");
    }
    const std::string near = closest_function(name.text);
    fail_at(text_, name.at, "there is no function \"" + name.text + "\"",
            (near.empty() ? "" : "did you mean " + near + "? ") + "The functions are " + function_list() +
                "; ops of users are none");
  }

  size_t value(const Token& name) {
    const auto local = defined_.find(name.text);
    if (local != defined_.end()) return local->second;
    Term term;
    term.at = name.at;
    const auto input = std::find(names_.inputs.begin(), names_.inputs.end(), name.text);
    if (input != names_.inputs.end()) {
      term.kind = Term::Kind::INPUT;
      term.input = static_cast<size_t>(input - names_.inputs.begin());
    } else if (std::count(names_.attributes.begin(), names_.attributes.end(), name.text) != 0) {
      term.kind = Term::Kind::ATTRIBUTE;
      term.name = name.text;
    } else if (name.text == "inf" || name.text == "nan" || name.text == "pi") {
      return number(name.text == "inf" ? INFINITY : name.text == "nan" ? NAN : 3.14159265358979323846, name.at);
    } else {
      not_known(name);
    }
    return add(std::move(term));
  }

  [[noreturn]] void not_known(const Token& name) const {
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      const bool defines = tokens_[i].kind == Token::Kind::NAME && tokens_[i].text == name.text &&
                           tokens_[i + 1].kind == Token::Kind::SIGN && tokens_[i + 1].text == "=";
      if (!defines) continue;
      fail_at(text_, name.at, "\"" + name.text + "\" has no value yet",
              "a statement uses only what stands before it: values that need each other, or themselves, have no "
              "meaning; " +
                  known());
    }
    if (find_function(name.text) != nullptr) {
      fail_at(text_, name.at, "\"" + name.text + "\" is a function", "call it: " + name.text + "(...)");
    }
    fail_at(text_, name.at, "\"" + name.text + "\" is not known here", known());
  }

  bool is_value(const std::string& name) const {
    return std::count(names_.inputs.begin(), names_.inputs.end(), name) != 0 ||
           std::count(names_.attributes.begin(), names_.attributes.end(), name) != 0 || defined_.count(name) != 0;
  }

  size_t number(double value, size_t at) {
    Term term;
    term.number = value;
    term.at = at;
    return add(std::move(term));
  }
  size_t call(const std::string& name, std::vector<size_t> operands, size_t at) {
    Term term;
    term.kind = Term::Kind::CALL;
    term.call = find_function(name);
    term.operands = std::move(operands);
    term.at = at;
    return add(std::move(term));
  }
  size_t add(Term term) {
    out_.terms.push_back(std::move(term));
    return out_.terms.size() - 1;
  }

  std::string known() const {
    std::string list = "known are";
    for (const auto* names : {&names_.inputs, &names_.attributes}) {
      for (const std::string& name : *names) list += " " + name;
    }
    for (const auto& [name, unused] : defined_) list += " " + name;
    return list + " inf nan pi, and functions as NAME(...)";
  }

  const std::string& text_;
  const ExpressionNames& names_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int64_t nest_ = 0;
  std::map<std::string, size_t> defined_;
  Expression out_;
};

}  // namespace

Expression parse_expression(const std::string& text, const ExpressionNames& names) {
  if (text.size() > static_cast<size_t>(limits::name_bytes)) {
    throw Error(Code::LIMIT, "the expression has more than " + std::to_string(limits::name_bytes) + " bytes");
  }
  return Parser(text, names).run();
}

bool is_expression_name(const std::string& text) {
  if (text.empty() || !is_letter(text[0])) return false;
  if (!std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); })) return false;
  return text != "and" && text != "or" && text != "not" && text != "inf" && text != "nan" && text != "pi";
}

void fail_at(const std::string& text, size_t at, const std::string& message, const std::string& help) {
  throw error_at(Code::ARGUMENT, text, at, message, help);
}

Error error_at(Code code, const std::string& text, size_t at, const std::string& message, const std::string& help) {
  const size_t end_before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const size_t start = end_before == std::string::npos ? 0 : end_before + 1;
  std::string line = text.substr(start, std::min(text.find('\n', start), text.size()) - start);
  const size_t column = at - start;
  const size_t cut = column > 60 ? column - 60 : 0;  // the place stays in sight
  line = line.substr(cut, 100);
  for (char& c : line) c = c >= ' ' && c <= '~' ? c : '?';
  const auto number = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(start), '\n') + 1;
  return Error(
      code, "line " + std::to_string(number) + ", column " + std::to_string(column + 1) + ": " + message,
      (help.empty() ? "it is marked below" : help) + "\n" + line + "\n" + std::string(column - cut, ' ') + "^");
}

}  // namespace deepjit

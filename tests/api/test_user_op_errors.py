"""Ops of the user that are wrong: what is told, where, and that nothing stays half registered."""

import deepjit
import pytest
from user_op_models import SWISH, model


@pytest.fixture(autouse=True)
def nothing_registered():
    yield
    for name in deepjit.registered_ops():
        deepjit.forget_op(name)


@pytest.mark.parametrize(
    ("call", "near"), [("sigmod(x)", "sigmoid"), ("Exp(x)", "exp"), ("maximum(x, 0)", None), ("my_own(x)", None)]
)
def test_unknown_functions_have_a_hint(call, near):
    with pytest.raises(deepjit.Error) as raised:
        deepjit.register_op("my.ops::Bad", expression=call, inputs="x")
    first = raised.value.hint.split("\n")[0]
    assert (f"did you mean {near}? " in first) if near else ("did you mean" not in first)
    assert "The functions are abs, " in first and "ops of users are none" in first


def test_wrong_reference_is_told_and_nothing_stays():
    with pytest.raises(deepjit.Error) as raised:
        deepjit.register_op("my.ops::Twice", expression="x + x", inputs="x", reference=lambda x: x * 2 + (x > 2))
    assert raised.value.name == "RUN_VALUE"
    assert 'output "y"' in str(raised.value) and "the reference says" in str(raised.value)
    assert deepjit.registered_ops() == []


def test_what_a_reference_raises_passes_through():
    with pytest.raises(KeyError, match="mine"):
        deepjit.register_op("my.ops::Twice", expression="x + x", inputs="x", reference=lambda x: {}["mine"])
    assert deepjit.registered_ops() == []


@pytest.mark.parametrize(
    ("reference", "code", "words"),
    [
        (lambda x: (x, x), 804, "gives 2 results, the op has 1 outputs"),
        (lambda x: None, 502, "the reference of my.ops::Twice is object"),
        (lambda x: "text", 502, "the reference of my.ops::Twice is <U4"),
        (lambda x: x[..., :1] * 2, 506, "has shape"),
        (lambda: 0, None, "positional argument"),
        (3, 804, "is no function"),
    ],
)
def test_references_that_do_not_fit(reference, code, words):
    with pytest.raises((deepjit.Error, TypeError)) as raised:
        deepjit.register_op("my.ops::Twice", expression="x + x", inputs="x", reference=reference)
    assert words in str(raised.value) and getattr(raised.value, "code", None) == code
    assert deepjit.registered_ops() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": 3}, "inputs of my.ops::Bad are texts, not [3]"),
        ({"inputs": []}, "it has no inputs"),
        ({"inputs": ["x", "x"]}, 'named "x"'),
        ({"inputs": ["x: float99"]}, "no element type"),
        ({"outputs": []}, "it has no outputs"),
        ({"outputs": ["x"]}, 'named "x"'),
        ({"attributes": {"a": "1"}, "expression": "x * b"}, '"b" is not known'),
        ({"attributes": {"a": "one"}}, 'attribute "a" of my.ops::Bad is no number'),
        ({"attributes": {1: 1}}, "the name of an attribute"),
        ({"attributes": {"x": 1}}, 'named "x"'),
        ({"expression": 3}, "is a text, not 3"),
        ({"expression": ""}, 'nothing defines the output "y"'),
        ({"shape": ["x"]}, "is a text, not"),
        ({"dtypes": ["float7"]}, 'dtypes has "float7"'),
        ({"dtypes": []}, "no dtypes"),
        ({"tolerance": -1}, "the tolerance"),
    ],
)
def test_definitions_that_are_none(options, words):
    with pytest.raises(deepjit.Error, match="E804") as raised:
        deepjit.register_op("my.ops::Bad", **{"expression": "x + 1", "inputs": "x", **options})
    assert words in str(raised.value) and deepjit.registered_ops() == []


def test_failed_replacement_keeps_the_old_one():
    deepjit.register_op("my.ops::Swish", check=False, **SWISH)
    with pytest.raises(deepjit.Error):
        deepjit.register_op("my.ops::Swish", expression="x + 1", inputs="x", reference=lambda x: x, replace=True)
    assert "float32" in deepjit.check_op("my.ops::Swish")["generated"]


@pytest.mark.parametrize(
    ("expression", "column", "words"),
    [
        ("y = x * sigmod(x)", 9, 'no function "sigmod"'),
        ("y = x * z", 9, '"z" is not known'),
        ("y = x * (x + 1", 15, '")" is missing'),
        ("y = x +", 8, "a value is missing"),
        ("y = x $ 2", 7, "no meaning"),
        ("x = x", 1, "has a meaning already"),
        ("y = max(x)", 5, "takes 2 operands"),
        ("t = x + 1", 10, 'nothing defines the output "y"'),
        ("y = 2 + alpha", 7, "is a number"),
        ("y = x 2", 7, "end of the statement"),
        ("y = sum(x, x)", 5, "an axis of sum is a number"),
        ("y = sum(x, 5)", 5, "reduced axis 5 is out of range"),
        ("y = sum(x, 1.5)", 5, "an axis is a whole number from -16 to 15, not 1.5"),
        ("y = x * 1e400", 9, "too large"),
        ("y = x if x else 0", 7, "end of the statement"),
        ("y = x[0]", 6, "no meaning"),
        ("y = 1x", 5, "this is no number"),
        ("y = softmax(x, 1, 2)", 5, "takes 1 or 2 operands, not 3"),
        ("y = Bad(x)", 5, "an op cannot call itself"),
        ("y = x(2)", 5, '"x" is a value, not a function'),
        ("y = exp * x", 5, '"exp" is a function'),
        ("t = t + x; y = t", 5, '"t" has no value yet'),
        ("a = b + x; b = a; y = b", 5, '"b" has no value yet'),
    ],
)
def test_errors_show_the_place(expression, column, words):
    with pytest.raises(deepjit.Error) as raised:
        deepjit.register_op("my.ops::Bad", expression=expression, inputs="x", attributes={"alpha": 1})
    assert words in raised.value.message and f"column {column}:" in raised.value.message
    line, mark = raised.value.hint.split("\n")[-2:]
    assert line == expression and mark == " " * (column - 1) + "^"
    assert deepjit.registered_ops() == []


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("(" * 5000 + "x" + ")" * 5000, 104),
        ("-" * 5000 + "x", 104),
        ("x" + "+x" * 40000, 103),
        ("x" + "+x" * 2000, None),
    ],
    ids=["parentheses", "signs", "too long", "long"],
)
def test_hostile_expressions(expression, code):
    if code is None:
        deepjit.register_op("my.ops::Long", expression=expression, inputs="x", check=False)
        return
    with pytest.raises(deepjit.Error, match=f"E{code}"):
        deepjit.register_op("my.ops::Long", expression=expression, inputs="x", check=False)


@pytest.mark.parametrize("shape", ["x", "[N, C] -> [N, C]", "[N, C] -> [N, 2]"])
def test_shape_rule_that_does_not_hold(shape):
    with pytest.raises(deepjit.Error, match="E203") as raised:
        deepjit.register_op("my.ops::Row", expression="sum(x)", inputs="x", shape=shape, check=False)
    assert "the expression yields" in raised.value.message and "says" in raised.value.message


@pytest.mark.parametrize(
    "shape", ["z", "[N -> [N]", "[N] -> [M]", "[N], [N] -> [N]", "[N] -> [N], [N]", "[2*N] -> [N]"]
)
def test_text_that_is_no_shape_rule(shape):
    with pytest.raises(deepjit.Error, match="E804"):
        deepjit.register_op("my.ops::Row", expression="x + 1", inputs="x", shape=shape, check=False)


NO_NAMES = ["Swish", "my.ops::", "::Swish", "ai.onnx::Relu", "deepjit::Region", "my ops::F", "a::b::C"]


@pytest.mark.parametrize("name", [*NO_NAMES, "com.microsoft::Gelu"])
def test_names(name):
    with pytest.raises(deepjit.Error, match="E804"):
        deepjit.register_op(name, expression="x", inputs="x", check=False)
    assert deepjit.registered_ops() == []


@pytest.mark.parametrize(
    ("node", "code"),
    [
        ("my.ops.Swish (x)", 205),
        ("my.ops.Swish (x, x, x)", 205),
        ("my.ops.Swish <beta: float = 1.0> (x, x)", 209),
        ('my.ops.Swish <alpha: string = "1"> (x, x)', 209),
        ("my.ops.Other (x)", 208),
    ],
)
def test_nodes_that_do_not_fit(node, code):
    deepjit.register_op("my.ops::Swish", check=False, **SWISH)
    with pytest.raises(deepjit.Error, match=f"E{code}") as raised:
        deepjit.build(model(f"g (float[4] x) => (float[4] y) {{ [mine] y = {node} }}"))
    assert "mine" in raised.value.message and "my.ops::" in str(raised.value)
    if code == 208:
        assert "registered are my.ops::Swish" in raised.value.hint


def test_a_node_whose_operands_have_other_types():
    deepjit.register_op("my.ops::Pick", expression="where(m, x, 0)", inputs=["x", "m: bool"], check=False)
    with pytest.raises(deepjit.Error, match='E206.*"mine".*input "m" is float32, my.ops::Pick takes bool'):
        deepjit.build(model("g (float[4] x) => (float[4] y) { [mine] y = my.ops.Pick (x, x) }"))


def test_an_expression_of_types_that_do_not_fit():
    """Told at their place, and in one sentence."""
    with pytest.raises(deepjit.Error) as raised:
        deepjit.register_op("my.ops::Bad", expression="y = x and x", inputs="x", check=False)
    assert raised.value.message == "op my.ops::Bad: line 1, column 7: And: input 0 must be bool, got float32"
    assert raised.value.hint.endswith("y = x and x\n      ^") and deepjit.registered_ops() == []
    deepjit.register_op("my.ops::Sum", expression="x + b", inputs=["x", "b"], check=False)
    with pytest.raises(deepjit.Error, match=r'E203.*node "mine" \(Sum\): line 1, column 3: shapes .* do not broadcast'):
        deepjit.build(model("g (float[4] x, float[3] b) => (float[4] y) { [mine] y = my.ops.Sum (x, b) }"))


@pytest.mark.parametrize(
    ("expression", "dtype", "words"),
    [
        ("x * 0.5", "int64", "column 3: the number 0.5 meets a tensor of int64, which cannot hold it"),
        ("max(x, -3000000000)", "int32", "the number -3000000000 meets a tensor of int32"),
        ("x + inf", "int32", "the number inf meets a tensor of int32"),
        ("x == 2", "bool", "the number 2 meets a tensor of bool"),
        ("x + 1", "bool", "Add: "),
    ],
)
def test_numbers_that_a_tensor_cannot_hold(expression, dtype, words):
    with pytest.raises(deepjit.Error) as raised:
        deepjit.register_op("my.ops::Bad", expression=expression, inputs="x", dtypes=dtype)
    assert words in raised.value.message and raised.value.code in (206, 209)


def test_a_dim_that_only_a_run_tells():
    with pytest.raises(deepjit.Error) as raised:
        deepjit.register_op("my.ops::Flat", expression="squeeze(x)", inputs="x")
    assert "op my.ops::Flat of x float32[2,3,17]: " in raised.value.message and "[N, 1] -> [N]" in raised.value.hint
    deepjit.register_op("my.ops::Flat", expression="squeeze(x)", inputs="x", shape="[N, 1] -> [N]")


def test_the_text_of_an_op_is_one_line():
    lines = """
        # a comment
        t = max(x,      # goes on
                0)
        y = t + 1;
    """
    deepjit.register_op("my.ops::Text", expression=lines, inputs="x", check=False)
    with pytest.raises(deepjit.Error) as raised:
        deepjit.register_op("my.ops::Text", expression="x", inputs="x", check=False)
    assert raised.value.message.endswith("another definition: Text(x): t = max(x, 0); y = t + 1")

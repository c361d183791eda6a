"""Operators of ai.onnx.ml against ONNX Runtime, and against the text of the specification where that refuses."""

import deepjit
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

RANDOM = np.random.default_rng(7)


def onnx_type(value):
    return TensorProto.STRING if value.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(value.dtype)


def model(op, feeds, outputs, version, **attributes):
    node = helper.make_node(op, list(feeds), outputs, domain="ai.onnx.ml", **attributes)
    infos = [helper.make_tensor_value_info(name, onnx_type(value), value.shape) for name, value in feeds.items()]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info(name) for name in outputs])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def run(op, x, version=1, outputs=("y",), **attributes):
    feeds = x if isinstance(x, dict) else {"x": x}
    return deepjit.build(model(op, feeds, list(outputs), version, **attributes)).run(feeds)


def agree(op, x, version=1, outputs=("y",), **attributes):
    """Runs both and compares everything."""
    feeds = x if isinstance(x, dict) else {"x": x}
    session = onnxruntime.InferenceSession(
        model(op, feeds, list(outputs), version, **attributes), providers=["CPUExecutionProvider"]
    )
    got = run(op, x, version, outputs, **attributes)
    for name, want in zip(outputs, session.run(None, feeds), strict=True):
        assert got[name].dtype == want.dtype and got[name].shape == want.shape, name
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got[name], want, rtol=2e-5, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(got[name], want, err_msg=name)


# ---- element by element


def test_binarizer():
    x = np.array([-1, 0.5, 1.5, np.nan, np.inf], np.float32)
    assert run("Binarizer", x, threshold=0.5)["y"].tolist() == [0, 0, 1, 0, 1]
    for dtype in (np.int64, np.int32):
        assert run("Binarizer", np.array([-2, -1, 0], dtype), threshold=-1.5)["y"].tolist() == [0, 1, 1]


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_array_feature_extractor(shape):
    x = RANDOM.normal(size=shape).astype(np.float32)
    agree("ArrayFeatureExtractor", {"x": x, "i": np.array([3, 0, 0], np.int64)})


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_scaler(dtype):
    x = RANDOM.integers(-9, 9, (3, 2)).astype(dtype)
    agree("Scaler", x, offset=[1.5, -2.0], scale=[0.5, 3.0])
    agree("Scaler", x, offset=[1.5], scale=[0.5])


def test_imputer():
    agree("Imputer", np.array([[1, 2], [np.nan, 2]], np.float32), imputed_value_floats=[7.0, 8.0],
          replaced_value_float=float("nan"))  # fmt: skip
    agree("Imputer", np.array([[1, 2], [0, 2]], np.int64), imputed_value_int64s=[9], replaced_value_int64=2)


def test_feature_vectorizer():
    feeds = {"a": np.array([[1.5], [2]], np.float32), "b": np.array([[3, 4], [5, 6]], np.float32)}
    agree("FeatureVectorizer", feeds, inputdimensions=[1, 2])
    got = run("FeatureVectorizer", feeds | {"c": np.array([[7], [8]], np.int64)}, inputdimensions=[1, 2, 1])["y"]
    assert got.tolist() == [[1.5, 3, 4, 7], [2, 5, 6, 8]]


def test_zip_map_says_what_to_do():
    with pytest.raises(deepjit.Error, match="zipmap") as caught:
        run("ZipMap", np.zeros((1, 2), np.float32), classlabels_int64s=[1, 2])
    assert caught.value.name == "UNSUPPORTED_OP"


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    agree("Normalizer", np.array([[-4, 2, 1], [0, 0, 0], [-1, -2, -3]], np.float32), norm=norm)


# ---- labels

KEYS = {
    "strings": (["b", "a", "c"], np.array(["a", "x", "c", "b"], object)),
    "int64s": ([5, -3, 9], np.array([9, 5, 0, -3], np.int64)),
    "floats": ([0.5, float("nan"), -1.0], np.array([-1, np.nan, 3, 0.5], np.float32)),
}


@pytest.mark.parametrize("keys", KEYS)
def test_label_encoder(keys):
    known, x = KEYS[keys]
    agree("LabelEncoder", x, 4, values_int64s=[10, 20, 30], default_int64=-7, **{f"keys_{keys}": known})
    agree("LabelEncoder", x, 4, values_floats=[1.5, 2.5, 3.5], default_float=0.25, **{f"keys_{keys}": known})


@pytest.mark.parametrize("keys", KEYS)
def test_label_encoder_to_strings(keys):
    known, x = KEYS[keys]
    agree("LabelEncoder", x, 4, values_strings=["p", "", "long enough for memory of its own"], default_string="?",
          **{f"keys_{keys}": known})  # fmt: skip


def test_classifier_with_labels_of_strings():
    agree("LinearClassifier", np.array([[1, 2], [-3, 1]], np.float32), outputs=("label", "scores"),
          classlabels_strings=["no", "yes"], coefficients=[1.0, -1, 0.5, 2], intercepts=[0.1, 0.2])  # fmt: skip


def test_label_encoder_defaults_and_repeated_keys():
    x = np.array([[1, 2], [3, 1]], np.int64)
    got = run("LabelEncoder", x, 4, keys_int64s=[1, 2, 1], values_floats=[1.0, 2.0, 4.0])["y"]
    assert got.tolist() == [[4, 2], [0, 4]] and np.signbit(got[1, 0])  # the last key counts; -0 is the default
    keys = helper.make_tensor("k", TensorProto.DOUBLE, [1], [0.5])
    values = helper.make_tensor("v", TensorProto.INT16, [1], [3])
    got = run("LabelEncoder", np.array([0.5, 0.0]), 4, keys_tensor=keys, values_tensor=values)["y"]
    assert got.dtype == np.int16 and got.tolist() == [3, -1]


def test_label_encoder_1():
    agree("LabelEncoder", np.array(["b", "z", "a"], object), classes_strings=["a", "b"], default_int64=5)


def test_label_encoder_refuses_lists_of_two_lengths():
    with pytest.raises(deepjit.Error, match="2 keys and 1 values"):
        run("LabelEncoder", np.array([1], np.int64), 2, keys_int64s=[1, 2], values_int64s=[1])


def test_category_mapper():
    agree(
        "CategoryMapper", np.array([["b", "z"]], object), cats_strings=["a", "b"], cats_int64s=[3, 4], default_int64=9
    )


@pytest.mark.parametrize("x", [np.array([[1, 3], [5, 2]], np.int64), np.array([1.7, 3, -1], np.float32)])
def test_one_hot_encoder(x):
    agree("OneHotEncoder", x, cats_int64s=[1, 2, 3], zeros=1)


def test_one_hot_encoder_without_zeros_names_the_element():
    assert run("OneHotEncoder", np.array([2, 1], np.int64), cats_int64s=[1, 2], zeros=0)["y"].tolist() == [
        [0, 1],
        [1, 0],
    ]
    with pytest.raises(deepjit.Error, match="element 1") as caught:
        run("OneHotEncoder", np.array([2, 7], np.int64), cats_int64s=[1, 2], zeros=0)
    assert caught.value.name == "RUN_VALUE"


def test_one_hot_encoder_of_strings():
    x = np.array(["b", "?"], object)
    assert run("OneHotEncoder", x, cats_strings=["a", "b"])["y"].tolist() == [[0, 1], [0, 0]]


# ---- linear models

TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
ROWS = np.array([[0.5, 1, -2], [0.1, 0, 0.3], [3, 0, 0.5]], np.float32)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_regressor(transform):
    agree("LinearRegressor", ROWS, coefficients=[1.0, 0, 0, 0.5, -1, 2], intercepts=[0.0, 0.25], targets=2,
          post_transform=transform)  # fmt: skip


def test_probit():
    x = np.array([[0.2], [0.5], [0.9]], np.float32)
    agree("LinearRegressor", x, coefficients=[1.0], targets=1, post_transform="PROBIT")


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [1, 3])
def test_linear_classifier(transform, classes):
    labels = [4, 7] if classes == 1 else [4, 7, 1]
    coefficients = RANDOM.normal(size=classes * 3).tolist()
    agree("LinearClassifier", ROWS, outputs=("label", "scores"), classlabels_ints=labels, post_transform=transform,
          coefficients=coefficients, intercepts=[0.1, -0.2, 0.3][:classes])  # fmt: skip


# ---- trees


def random_trees(count, depth, features, mode=None):
    """Full trees: the nodes_* lists by tree and node id, and the ids of the leaves."""
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    lists = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    missing, leaves = [], []
    for tree in range(count):
        for k in range(2 ** (depth + 1) - 1):
            leaf = k >= 2**depth - 1
            kind = "LEAF" if leaf else mode or modes[RANDOM.integers(len(modes))]
            row = (tree, k, int(RANDOM.integers(features)), float(RANDOM.integers(-2, 3)), kind)
            row += (0, 0) if leaf else (2 * k + 1, 2 * k + 2)
            for values, v in zip(lists.values(), row, strict=True):
                values.append(v)
            missing.append(int(RANDOM.integers(2)))
            if leaf:
                leaves.append((tree, k))
    return {f"nodes_{k}": v for k, v in lists.items()} | {"nodes_missing_value_tracks_true": missing}, leaves


def votes(prefix, leaves, targets, each=1, low=-1.0):
    """`each` votes at every leaf."""
    chosen = [leaf for leaf in leaves for _ in range(each)]
    ids = (
        [k % targets for k in range(each)] * len(leaves)
        if each > 1
        else RANDOM.integers(targets, size=len(chosen)).tolist()
    )
    return {
        f"{prefix}_treeids": [t for t, _ in chosen],
        f"{prefix}_nodeids": [n for _, n in chosen],
        f"{prefix}_ids": ids,
        f"{prefix}_weights": RANDOM.uniform(low, 1, len(chosen)).astype(np.float32).tolist(),
    }  # fmt: skip


def tree_rows(dtype):
    x = RANDOM.integers(-3, 4, (40, 5)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[::7, 1] = np.nan
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_regressor(aggregate, dtype):
    nodes, leaves = random_trees(4, 3, 5)
    agree("TreeEnsembleRegressor", tree_rows(dtype), 3, aggregate_function=aggregate, n_targets=1, base_values=[0.5],
          **nodes, **votes("target", leaves, 1))  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_tree_regressor_of_integers(dtype):
    nodes, leaves = random_trees(4, 3, 5)
    attributes = nodes | votes("target", leaves, 1)
    x = tree_rows(dtype)
    got = run("TreeEnsembleRegressor", x, 3, n_targets=1, **attributes)["y"]
    want = run("TreeEnsembleRegressor", x.astype(np.float64), 3, n_targets=1, **attributes)["y"]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_tree_regressor_of_many_targets(transform):
    nodes, leaves = random_trees(4, 3, 5)
    agree("TreeEnsembleRegressor", tree_rows(np.float32), 3, n_targets=3, post_transform=transform,
          **nodes, **votes("target", leaves, 3, each=3))  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_tree_classifier(transform):
    nodes, leaves = random_trees(5, 3, 5)
    agree("TreeEnsembleClassifier", tree_rows(np.float32), 3, ("label", "scores"), classlabels_int64s=[3, 1, 7],
          post_transform=transform, **nodes, **votes("class", leaves, 3, each=3))  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_tree_classifier_with_one_score(transform, low):
    nodes, leaves = random_trees(3, 2, 5)
    agree("TreeEnsembleClassifier", tree_rows(np.float32), 3, ("label", "scores"), classlabels_int64s=[3, 9],
          post_transform=transform, **nodes, **votes("class", leaves, 1, low=low))  # fmt: skip


def tree_5(**changes):
    """x0 <= 1 ? (x1 in {2, 5} ? leaf 0 : leaf 1) : leaf 2"""
    attributes = {
        "n_targets": 2,
        "tree_roots": [0],
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [2], [0, 6]),
        "nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [2], [1.0, 0.0]),
        "nodes_featureids": [0, 1],
        "nodes_truenodeids": [1, 0],
        "nodes_trueleafs": [0, 1],
        "nodes_falsenodeids": [2, 1],
        "nodes_falseleafs": [1, 1],
        "leaf_targetids": [0, 1, 0],
        "leaf_weights": helper.make_tensor("w", TensorProto.FLOAT, [3], [0.5, 2.0, -1.0]),
        "membership_values": helper.make_tensor("v", TensorProto.FLOAT, [3], [2.0, 5.0, float("nan")]),
    }
    return attributes | changes


def test_tree_ensemble_5():
    x = np.array([[0, 5], [1, 4], [2, 2], [np.nan, 2]], np.float32)
    want = [[0.5, 0], [0, 2], [-1, 0], [-1, 0]]
    assert run("TreeEnsemble", x, 5, **tree_5())["y"].tolist() == want
    tracked = run("TreeEnsemble", x, 5, **tree_5(nodes_missing_value_tracks_true=[1, 0]))["y"]
    assert tracked.tolist() == want[:3] + [[0.5, 0]]
    twice = run("TreeEnsemble", x, 5, **tree_5(tree_roots=[0, 0], aggregate_function=0, post_transform=1))["y"]
    np.testing.assert_allclose(twice, np.exp(want) / np.exp(want).sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_truenodeids": [0, 0]}, "own descendant"),
        ({"nodes_falsenodeids": [2, 3]}, "child 3"),
        ({"tree_roots": [2]}, "child 2"),
        ({"leaf_targetids": [0, 2, 0]}, "target 2"),
        ({"nodes_featureids": [0]}, "nodes_featureids"),
        ({"membership_values": helper.make_tensor("v", TensorProto.FLOAT, [1], [2.0])}, "membership_values"),
    ],
)
def test_malformed_trees(changes, words):
    with pytest.raises(deepjit.Error, match=words) as caught:
        run("TreeEnsemble", np.zeros((1, 2), np.float32), 5, **tree_5(**changes))
    assert caught.value.name == "ATTRIBUTE"


def test_absurd_number_of_targets():
    with pytest.raises(deepjit.Error, match="n_targets") as caught:
        run("TreeEnsemble", np.zeros((1, 2), np.float32), 5, **tree_5(n_targets=2**40))
    assert caught.value.name == "LIMIT"


def test_too_few_features():
    with pytest.raises(deepjit.Error) as caught:
        run("TreeEnsemble", np.zeros((1, 1), np.float32), 5, **tree_5())
    assert caught.value.name == "SHAPE_MISMATCH"

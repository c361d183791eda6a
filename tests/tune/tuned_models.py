"""Models for the tests of tuning: convolutions and products with packed weights, regions, combos, bodies."""

import shutil
import signal

import numpy as np
from child_process import kill_once_told
from onnx import ModelProto, numpy_helper, parser

from program import PROGRAM, run_program


def constant(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


CONSTANTS = {
    "w1": constant(16, 3, 3, 3, scale=0.2),
    "b1": constant(16, seed=1),
    "w2": constant(16, 16, 3, 3, seed=2, scale=0.1),
    "wd": constant(16, 1, 3, 3, seed=3, scale=0.3),
    "w3": constant(1024, 24, seed=4, scale=0.03),
    "last": np.array([-1]),
    "lw": constant(1, 32, 24, seed=5, scale=0.2),
    "lr": constant(1, 32, 8, seed=6, scale=0.2),
}

# Inputs and results, nodes, what one feeds with n rows.
MODELS = {
    "image": (
        "(float[N,3,16,16] x) => (float[N,24] y, float[N,24] z)",
        "c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1, b1) r = Relu (c)"
        " d = Conv <group = 16, pads = [1, 1, 1, 1]> (r, wd) e = Conv <pads = [1, 1, 1, 1]> (d, w2)"
        " s = Add (e, r) f = Flatten (s) p = MatMul (f, w3) y = Softmax (p) t = Tanh (p) z = Mul (t, y)",
        (3, 16, 16),
    ),
    "many small": (
        "(float[N,64] x) => (float[N,64] y, float[N,64] z, float[N,1] m)",
        "a = Tanh (x) b = Softmax (a) c = Exp (b) d = Softmax (c) m = ReduceMean (d, last) y = Sub (d, m)"
        " u = Neg (x) v = Softmax (u) w = Sigmoid (v) z = Softmax (w)",
        (64,),
    ),
    "branch and loop": (
        "(float[N,24] x) => (float[N,24] y)",
        "a = Tanh (x) s = ReduceSum <keepdims = 0> (a) o = Sub (s, s) c = Greater (s, o)"
        " b = If (c) <then_branch = p () => (float[N,24] t) { q = Exp (a) t = Softmax (q) },"
        " else_branch = n () => (float[N,24] e) { e = Neg (a) }> y = Softmax (b)",
        (24,),
    ),
    "recurrent": (
        "(float[N,1,24] x) => (float[N,1,1,8] y)",
        "a = Tanh (x) b = Exp (a) l = LSTM <hidden_size = 8> (b, lw, lr) y = Neg (l)",
        (1, 24),
    ),
}


def model(name: str) -> ModelProto:
    ends, nodes, _ = MODELS[name]
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g {ends} {{ {nodes} }}')
    for key, value in CONSTANTS.items():
        if any(key in node.input for node in made.graph.node):
            made.graph.initializer.append(numpy_helper.from_array(value, key))
    return made


def dims(name: str) -> tuple[int, ...]:
    return MODELS[name][2]


def ranges(name: str) -> dict:
    return {"x": tuple((n, *dims(name)) for n in (1, 4, 9))}


def feeds(name: str, n: int) -> dict:
    return {"x": np.random.default_rng(n).standard_normal((n, *dims(name)), np.float32)}


def assert_agree(engine, other, name: str, rows=(1, 4, 9)) -> None:
    """The same numbers up to the rounding of another order of sums."""
    for n in rows:
        want, got = other.run(feeds(name, n)), engine.run(feeds(name, n))
        for output in want:
            np.testing.assert_allclose(got[output], want[output], rtol=2e-5, atol=2e-5, err_msg=f"{name} {output}")


def assert_file_agrees(folder, engine: str, name: str = "image", environment: dict | None = None) -> None:
    """The engine file against the reference, both run by the program on the rows of m.onnx."""
    rows = "x=" + "x".join(map(str, (4, *dims(name))))
    for source, options in (("m.onnx", ["--no-tune"]), (engine, [])):
        done = run_program(
            folder, "run", source, "-i", "x=random:1", "--shapes", rows, "-o", f"of_{source}", *options,
            environment=environment if source == engine else None,
        )  # fmt: skip
        assert done.code == 0, done.err
    for want in (folder / "of_m.onnx").glob("*.npy"):
        got = np.load(folder / f"of_{engine}" / want.name)
        np.testing.assert_allclose(got, np.load(want), rtol=2e-5, atol=2e-5, err_msg=want.name)
    for left in (folder / "of_m.onnx", folder / f"of_{engine}"):
        shutil.rmtree(left)


def killed_while_tuning(folder, environment, *arguments) -> int:
    """Starts a build and kills it once some kernels are measured; returns how many it had told of by then."""
    command = [str(PROGRAM), *arguments, "--verbose", "--tune-cache", "cache"]
    told, code = kill_once_told(command, "<- selected", 3, cwd=folder, env=environment)
    assert code == -signal.SIGKILL
    return told

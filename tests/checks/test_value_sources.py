"""Values and effects that are followed through functions, methods, closures and files.

In the programs, a comment names the codes that a line must have; all other lines must have none.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from embercoach.checks import Project, check_source

HEAD = "import mlx.core as mx\nimport mlx.nn as nn\n"
FAMILIES = ("RANDOM-", "INDEX-", "DTYPE-001", "DTYPE-011", "GRAD-006")

OTHER = """
    EPS = mx.array(1e-5)


    def probabilities(x):
        return mx.softmax(x, axis=-1)


    def whiten(x):
        x = center(x)
        return x / 3


    def center(x):
        x -= x.mean()
        return x


    def put(x, v):
        x[0] = v


    def head(x: mx.array) -> mx.array:
        return x[:2]


    class Policy(nn.Module):
        def __call__(self, x):
            return x

        def distribution(self, x: mx.array) -> mx.array:
            return probabilities(self(x)).astype(mx.float32)


    class Store:
        def __init__(self):
            self.data = mx.zeros((4, 4))
            self.items = [mx.zeros((4,))]

        def page(self, n: int) -> mx.array:
            return self.data[n]

        def entry(self, n):
            return self.items[n]
"""

PROGRAMS = {
    "probabilities as logits": """
        from other import Policy, probabilities

        class Actor(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 4)
                self.softmax = nn.Softmax()

            def distribution(self, x) -> mx.array:
                p = mx.softmax(self.fc(x), axis=-1)
                return p

            def both(self, x):
                return mx.softmax(self.fc(x), axis=-1), 3

            def method(self, x):
                return mx.random.categorical(self.distribution(x))  # RANDOM-005

            def unpacked(self, x: mx.array) -> mx.array:
                p, _ = self.both(x)
                return mx.random.categorical(p)  # RANDOM-005

            def layer(self, x):
                return mx.random.categorical(self.softmax(self.fc(x))[:, -1])  # RANDOM-005

        def pick(p):
            return mx.random.categorical(p)  # RANDOM-005

        def caller(x: mx.array):
            return pick(mx.softmax(x, axis=-1))

        def elsewhere(x):
            p = Policy().distribution(x)
            return mx.random.categorical(probabilities(x)), p  # RANDOM-005

        def elsewhere_method(x):
            return mx.random.categorical(Policy().distribution(x))  # RANDOM-005

        def scaled(t):
            def inner(x):
                return mx.softmax(x / t, axis=-1)
            return inner

        def closure(x):
            inner = scaled(2.0)
            return mx.random.categorical(inner(x))  # RANDOM-005

        def perhaps(x, raw):
            p = x if raw else mx.softmax(x, axis=-1)
            return mx.random.categorical(p)

        def logarithms(x):
            return mx.random.categorical(mx.log(probabilities(x)))

        def mixed(p):
            return mx.random.categorical(p)

        def mixing(x: mx.array):
            return mixed(mx.softmax(x, axis=-1)), mixed(x)
    """,
    "logarithms of a softmax": """
        from other import Policy, probabilities

        def nll(p, y):
            picked = mx.take_along_axis(p, y[:, None], axis=-1)
            return -mx.log(picked)  # DTYPE-011

        def loss(x: mx.array, y: mx.array):
            return nll(mx.softmax(x, axis=-1), y)

        def distilled(policy: Policy, x, teacher: mx.array):
            return mx.sum(teacher * mx.log(policy.distribution(x)))  # DTYPE-011

        def entropy(x):
            p = probabilities(x)
            return mx.sum(p * mx.log(p))  # DTYPE-011

        def guarded(x):
            return mx.log(probabilities(x) + 1e-9)

        def given(p: mx.array):
            return mx.log(p)

        def nucleus(x: mx.array, k: mx.array):
            p = mx.softmax(x, axis=-1)
            ranked = mx.take_along_axis(p, mx.argsort(-p, axis=-1), axis=-1)
            masked = mx.where(mx.arange(9) < k, mx.log(ranked), -mx.inf)
            choice = mx.random.categorical(masked)
            return choice
    """,
    "writes to parts": """
        from other import Store, head

        class Grid:
            def __init__(self, n):
                self.cells = mx.zeros((n, n))
                self.rows = [mx.zeros((n,)) for _ in range(n)]

            def row(self, i):
                return self.cells[i]

            @property
            def inner(self) -> mx.array:
                return self.cells[1:-1]

            def item(self, i):
                return self.rows[i]

            def by_name(self, i, v):
                row = self.row(i)
                row[0] = v  # INDEX-002

            def at_once(self, i, v):
                self.row(i)[0] = v  # INDEX-002
                self.inner[0] = v  # INDEX-002

            def evaluated(self, v):
                inner = self.inner
                inner += v  # INDEX-002
                mx.eval(inner)

            def kept(self, i, v):
                row = self.item(i)
                row[0] = v
                changed = self.row(i)
                changed[0] = v
                return changed

        def stored(store: Store, v):
            page = store.page(3)
            page[0] = v  # INDEX-002
            head(store.data)[0] = v  # INDEX-002
            entry = store.entry(0)
            entry[0] = v

        def around(a: mx.array):
            def last():
                return a[-1]
            x = last()
            x[0] = 5  # INDEX-002
    """,
    "changed arguments": """
        from other import put, whiten

        def softmax(x):
            x -= x.max()  # INDEX-005
            e = mx.exp(x)
            return e / e.sum()

        def derived(a: mx.array):
            return softmax(a), a

        def scaled(x, k):
            x *= k  # INDEX-005
            return x

        class Layer:
            def __init__(self, n):
                self.table = mx.zeros((n, n))

            def attribute(self):
                return scaled(self.table, 2), self.table

        def standardized(x):
            x -= x.mean(axis=0)  # INDEX-005
            x /= x.std(axis=0)
            return x

        class Model:
            def fit(self, features):
                self.points = standardized(features)
                return self

        def report(table: mx.array):
            return Model().fit(table), table.mean()

        def ban(ids):
            banned = mx.array(ids)

            def process(logits):
                logits[:, banned] = -float("inf")  # INDEX-005
                return logits

            return process

        def applied(processors, logits):
            for process in processors:
                logits = process(logits)
            return logits

        class Sampler:
            def __init__(self, processors):
                self.processors = processors

            def __call__(self, logits):
                shaped = applied(self.processors, logits)
                return shaped, logits - mx.logsumexp(logits)

        def sampled(logits: mx.array):
            return Sampler([ban([1, 2])])(logits)

        def elsewhere(x: mx.array):
            return whiten(x), x.mean()  # INDEX-005

        def cached(buffer, k, i):
            buffer[i] = k
            return buffer[:i]

        def appended(buffer: mx.array, k: mx.array):
            return cached(buffer, k, 3), buffer

        def cleared(x):
            x[:] = 0
            return x

        def in_loop(model, x: mx.array, n: int):
            for _ in range(n):
                y = model(x)
                a, b = y.split(2)
                y = a + b
                z = whiten(y)
            return z

        def in_place(x: mx.array):
            cleared(x)
            put(x, 3)
            x = whiten(x)
            return x
    """,
    "kept arrays": """
        def path(x: mx.array, v: mx.array, n: int):
            trace = []
            for _ in range(n):
                trace.append(x)
                x += v  # INDEX-004
            return mx.stack(trace)

        class Optimizer:
            def __init__(self, n):
                self.w = mx.zeros((n,))
                self.best = self.w

            def step(self, g: mx.array):
                self.w -= g  # INDEX-004

            def result(self):
                return self.best

        class Simulation:
            def __init__(self, n):
                self.position = mx.zeros((n,))
                self.frames = []

            def run(self):
                self.frames.append(self.position)
                self.position += 1  # INDEX-004
                return mx.stack(self.frames)

        class Delta:
            def __init__(self, n):
                self.position = mx.zeros((n,))

            def step(self, v):
                previous = self.position
                self.position += v  # INDEX-004
                return self.position - previous

        def copied(x: mx.array, v: mx.array, n: int):
            trace = []
            for _ in range(n):
                trace.append(mx.array(x))
                x += v
            return trace, x

        def fresh(v: mx.array, n: int):
            trace = []
            for _ in range(n):
                y = mx.zeros((3,))
                y += v
                trace.append(y)
            return trace

        def rebound(x: mx.array, v: mx.array, n: int):
            trace = []
            for _ in range(n):
                trace.append(x)
                x = x + v
            x += 1
            return trace, x

        class Rebound:
            def __init__(self, n):
                self.position = mx.zeros((n,))

            def step(self, v):
                self.previous = self.position
                self.position = self.position + v
                return self.position - self.previous
    """,
    "constant seeds": """
        SEED = 7

        def crop(x: mx.array) -> mx.array:
            mx.random.seed(SEED)  # RANDOM-004
            return x + mx.random.normal(x.shape)

        def cropped(batches: list[mx.array]):
            return [crop(b) for b in batches]

        class Drop(nn.Module):
            def __init__(self, p, seed=0):
                super().__init__()
                self.p = p
                self.seed = seed

            def __call__(self, x):
                key = mx.random.key(self.seed)  # RANDOM-004
                first, _ = mx.random.split(key)
                return x * mx.random.bernoulli(self.p, x.shape, key=first)

        drop = Drop(0.5)

        class Data:
            def __getitem__(self, i):
                mx.random.seed(0)  # RANDOM-004
                return self.noise()

            def noise(self):
                return mx.random.uniform()

        def sample(n):
            mx.random.seed(1)  # RANDOM-004
            return draw(n)

        def draw(n):
            return mx.random.normal((n,))

        def once():
            return sample(3)

        def often(n):
            found = []
            for _ in range(n):
                once()
                key = mx.random.key(3)  # RANDOM-004
                found.append(mx.random.normal((3,), key=key))
            return found

        def train(rate):
            mx.random.seed(0)
            return mx.random.normal((3,)) * rate

        def noisy(x, sigma):
            mx.random.seed(0)
            return x + sigma * mx.random.normal(x.shape)

        def compared(x: mx.array, sigmas):
            for rate in (0.1, 0.2):
                train(rate)
            return [noisy(x, sigma) for sigma in sigmas]

        def shuffled(epoch, x):
            mx.random.seed(epoch)
            return mx.random.permutation(x)

        def optional(seed=None):
            if seed is not None:
                mx.random.seed(seed)
            return mx.random.normal()

        def epochs(x: mx.array):
            for epoch in range(3):
                shuffled(epoch, x)
                optional()
            mx.random.seed(0)
            return draw(3)
    """,
    "one key that a script passes to two functions": """
        def pair(x, key):
            return x + mx.random.normal(x.shape, key=key)

        def loss(x, key):
            return pair(x, key).mean()

        if __name__ == "__main__":
            key = mx.random.key(0)
            x = mx.zeros((3,))
            y = pair(x, key)
            z = loss(x, key)
    """,
    "straight-through expressions": """
        stop = mx.stop_gradient

        class Quantizer(nn.Module):
            def whole(self, z: mx.array, q: mx.array):
                return mx.stop_gradient(z + (q - z))  # GRAD-006

            def named(self, z, q):
                quantized = z + (q - z)
                return mx.stop_gradient(quantized)  # GRAD-006

            def part(self, z, q):
                q = mx.stop_gradient(q)
                return z + (q - z), 0  # GRAD-006

            def negated(self, z, q):
                return stop(z) + (q - z)  # GRAD-006

            def both(self, z, q):
                return stop(z) + stop(q - z)  # GRAD-006

            def rounded(self, x):
                d = mx.round(x) - x
                return x + d  # GRAD-006

            def around(self, soft, hard):
                return mx.round(stop(hard - soft) + soft)  # GRAD-006

            def correct(self, z, q):
                d = mx.stop_gradient(q - z)
                z = z + d
                return z, stop(z), z - stop(z - q), q - stop(z) + z

            def losses(self, z, q):
                return mx.mean((stop(z) - q) ** 2) + mx.mean((z - stop(q)) ** 2)

            def errors(self, a, b):
                s = a + b
                c = s - a
                return stop((a - (s - c)) + (b - c))
    """,
    "scalars of attributes": """
        from other import EPS

        class Block(nn.Module):
            def __init__(self, d, gain):
                super().__init__()
                self.fc = nn.Linear(d, d)
                self._gain = gain
                self.scale = mx.array(0.5)

            def __call__(self, x):
                return self._gain * self.fc(self.scale * x)  # DTYPE-001

        def build(d):
            gain = mx.array(0.1)
            return Block(d, gain)

        model = build(3)
        model.set_dtype(mx.float16)

        class Norm:
            def __init__(self):
                self.eps = 1e-5

            def plain(self, x: mx.array):
                return x.astype(mx.float16) * self.eps

            def imported(self, x: mx.array):
                return x.astype(mx.float16) * EPS  # DTYPE-001
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_flags_the_marked_lines_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(HEAD + dedent(OTHER))
    source = HEAD + dedent(PROGRAMS[name])
    path = tmp_path / "program.py"
    path.write_text(source)
    found = check_source(source, path, Project()).findings
    flagged = {(f.line, f.code) for f in found if f.code.startswith(FAMILIES)}
    marked = {
        (number, line.rpartition("  # ")[2])
        for number, line in enumerate(source.split("\n"), 1)
        if "  # " in line
    }
    assert flagged == marked

"""Tests of SparseNeighbors and top_k against a direct computation."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from classify_knn import SparseNeighbors, top_k


def expected_top_k(queries, rows, k, threshold=0.0):
    """Return all products in float64, rounded once; in decreasing order, ties by row."""
    products = (queries.astype(np.float32).astype(np.float64) @ rows.astype(np.float32).astype(np.float64).T).toarray()
    products = products.astype(np.float32)
    lists = []
    for row in products:
        order = np.lexsort((np.arange(len(row)), -row))
        lists.append([(int(at), float(row[at])) for at in order[:k] if row[at] > threshold])
    return lists


def lists_of(matrix):
    bounds = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    return [
        [(int(at), float(value)) for at, value in zip(matrix.indices[a:b], matrix.data[a:b], strict=True)] for a, b in bounds
    ]


def matrix(rows, columns, density, seed, signed=False, ties=False):
    random = np.random.default_rng(seed)
    made = sp.random(rows, columns, density=density, format="csr", random_state=seed)
    # Small integers have exact products and many ties.
    values = random.integers(1, 4, made.nnz) if ties else random.random(made.nnz) * 10.0 ** random.integers(-5, 5, made.nnz)
    made.data = values * (random.choice([-1, 1], made.nnz) if signed else 1.0)
    return made


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("signed", "ties"), [(False, True), (True, True)])
def test_equal_to_the_obvious_computation(seed, signed, ties):
    rows = matrix(300, 40, 0.1, seed, signed, ties)
    queries = matrix(70, 40, 0.1, seed + 100, signed, ties)
    for k in (1, 3, 50, 1_000):
        assert lists_of(top_k(queries, rows, k)) == expected_top_k(queries, rows, k)
    assert lists_of(top_k(queries, rows, 20, threshold=5.0)) == expected_top_k(queries, rows, 20, 5.0)
    by_column = top_k(queries, rows, 20, sort=False)
    assert by_column.has_sorted_indices
    assert [sorted(row) for row in lists_of(top_k(queries, rows, 20))] == lists_of(by_column)


def test_the_same_neighbors_as_scikit_learn():
    rows, queries = matrix(500, 200, 0.05, 1), matrix(90, 200, 0.05, 2)
    found, _ = SparseNeighbors(n_neighbors=7).fit(rows).kneighbors(queries)
    expected, _ = NearestNeighbors(n_neighbors=7, metric="cosine", algorithm="brute").fit(rows).kneighbors(queries)
    finite = np.isfinite(found)
    assert np.allclose(found[finite], expected[finite], atol=1e-6)
    # Rows that are not neighbors have similarity 0, so scikit-learn puts them at distance 1.
    assert np.allclose(expected[~finite], 1)


def test_own_neighbors_exclude_the_row():
    rows = sp.csr_matrix([[1.0, 0], [1, 0], [2, 0], [0, 1], [0, 0]])
    distances, indices = SparseNeighbors(n_neighbors=2).fit(rows).kneighbors()
    assert indices.tolist() == [[1, 2], [0, 2], [0, 1], [-1, -1], [-1, -1]]
    assert np.isinf(distances[3:]).all()
    graph = SparseNeighbors(n_neighbors=2).fit(rows).kneighbors_graph()
    assert graph.nnz == 6
    assert graph.shape == (5, 5)


def test_matrix_formats():
    dense = np.asarray([[1.0, 0, 2], [0, 3, 0]])
    expected = top_k(sp.csr_matrix(dense), sp.csr_matrix(dense), 2).toarray()
    for make in (np.asarray, sp.csc_matrix, sp.coo_matrix, sp.csr_array, lambda x: sp.csr_matrix(x.astype(np.float32))):
        assert (top_k(make(dense), make(dense), 2).toarray() == expected).all()
    unsorted = sp.csr_matrix((np.asarray([2.0, 1.0, 3.0]), np.asarray([2, 0, 1]), np.asarray([0, 2, 3])), shape=(2, 3))
    assert (top_k(unsorted, unsorted, 2).toarray() == expected).all()
    doubled = sp.csr_matrix((np.asarray([1.0, 1.0, 1.0, 3.0]), np.asarray([0, 2, 2, 1]), np.asarray([0, 3, 4])), shape=(2, 3))
    assert (top_k(doubled, doubled, 2).toarray() == expected).all()


def test_pickles():
    rows = matrix(50, 20, 0.2, 3)
    model = SparseNeighbors().fit(rows)
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.kneighbors(rows)[1] == model.kneighbors(rows)[1]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: SparseNeighbors(metric="l2").fit(x), "metric='l2'"),
        (lambda x: SparseNeighbors(n_neighbors=0).fit(x).kneighbors(x), "n_neighbors=0"),
        (lambda x: top_k(x, x, 0), "k=0"),
        (lambda x: top_k(x, x, 1, threshold=-1), "threshold=-1"),
        (lambda x: top_k(x, x[:, :2], 1), "columns"),
        (lambda x: top_k(x * np.inf, x, 1), "infinity|NaN"),
        (lambda x: SparseNeighbors().fit(x).kneighbors(x[:, :2]), "features"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(matrix(10, 5, 0.5, 4))

"""The named tuples that ops with several results return, as in PyTorch: `torch.return_types.sort` and so on.

Each is a tuple whose items also have names, made from one sequence: `sort((values, indices))`. Read next:
ops/reductions.py.
"""

from __future__ import annotations

from operator import itemgetter


class Named(tuple):
    """A tuple with names for its items; prints one item per line."""

    __slots__ = ()
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        items = [f"{name}={item!r}" for name, item in zip(self.names, self, strict=True)]
        return f"torch.return_types.{type(self).__name__}(\n" + ",\n".join(items) + ")"

    def __reduce__(self) -> tuple:
        return type(self), (tuple(self),)


def named(name: str, *names: str) -> type[Named]:
    fields = {field: property(itemgetter(position)) for position, field in enumerate(names)}
    return type(name, (Named,), {"__slots__": (), "__module__": __name__, "names": names, **fields})


max, min, median, nanmedian, mode, kthvalue, sort, topk, cummax, cummin = (
    named(name, "values", "indices")
    for name in ("max", "min", "median", "nanmedian", "mode", "kthvalue", "sort", "topk", "cummax", "cummin")
)
aminmax = named("aminmax", "min", "max")

linalg_inv_ex = named("linalg_inv_ex", "inverse", "info")
linalg_solve_ex = named("linalg_solve_ex", "result", "info")
linalg_cholesky_ex = named("linalg_cholesky_ex", "L", "info")
linalg_slogdet = named("linalg_slogdet", "sign", "logabsdet")
slogdet = named("slogdet", "sign", "logabsdet")
linalg_qr, qr = (named(name, "Q", "R") for name in ("linalg_qr", "qr"))
linalg_svd = named("linalg_svd", "U", "S", "Vh")
svd = named("svd", "U", "S", "V")
linalg_eig = named("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = named("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_lu = named("linalg_lu", "P", "L", "U")
lu_unpack = named("lu_unpack", "P", "L", "U")
linalg_lu_factor = named("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = named("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_lstsq = named("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
triangular_solve = named("triangular_solve", "solution", "cloned_coefficient")
geqrf = named("geqrf", "a", "tau")
linalg_ldl_factor = named("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = named("linalg_ldl_factor_ex", "LD", "pivots", "info")

histogram = named("histogram", "hist", "bin_edges")
histogramdd = named("histogramdd", "hist", "bin_edges")

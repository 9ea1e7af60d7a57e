"""RankLib: its text for linear regression and for ensembles of trees, which Elasticsearch's plugin also reads."""

from __future__ import annotations

from luce.errors import SettingError
from luce.export.base import Request, Written, refuse
from luce.export.form import Form, Trees
from luce.export.linear_terms import linear_terms
from luce.export.splits import Split, at_most, check_plain, missing_is_zero, nested, number


def write(request: Request) -> Written:
    """`## Linear Regression` with its bias, or `## LambdaMART`; features by their number, from 1."""
    form = request.form
    remarks = ["RankLib knows features by number: feature i of the data (or of the feature set) is the i-th here."]
    terms = linear_terms(form)
    if terms is not None:
        weights = [f"{i}:{w!r}" for i, w in enumerate(terms.linear.weights.tolist(), 1)]
        if terms.products:
            last = len(form.names)
            remarks.append(
                f"Features {last + 1} to {last + len(terms.products)} are products of features, in the order that "
                "--json lists; add them to the data."
            )
        facts = {"extra_features": [f"{a} * {b}" for a, b in terms.products.values()]} if terms.products else {}
        line = " ".join([f"0:{terms.linear.intercept!r}", *weights])
        return Written(f"## Linear Regression\n## Lambda = 1.0E-10\n{line}\n", remarks, facts, terms.products)
    if not isinstance(form.single, Trees):
        refuse(form, "RankLib's text", "it takes linear models and trees; networks go to solr, onnx or python")
    return Written(_ensemble(form.single, form, request.ignore_missing), remarks)


def _ensemble(part: Trees, form: Form, ignore_missing: bool) -> str:
    forest = part.forest
    check_plain(forest, form.names, "RankLib")
    if not ignore_missing and not missing_is_zero(forest):
        raise SettingError(
            "The trees send missing values another way than 0, and RankLib takes a missing value for 0; "
            "export to another target, or give --ignore-missing where no value is missing."
        )
    thresholds, features = at_most(forest.threshold).astype(float).tolist(), forest.feature.tolist()

    def leaf(_: int, value: float) -> str:
        return f"<output> {number(value)!r} </output>\n"

    def split(s: Split) -> str:
        return (
            f"<feature> {features[s.position] + 1} </feature>\n<threshold> {thresholds[s.position]!r} </threshold>\n"
            f'<split pos="left">\n{s.left}</split>\n<split pos="right">\n{s.right}</split>\n'
        )

    trees = [
        f'<tree id="{t + 1}" weight="1.0">\n<split>\n{nested(forest, t, split, leaf, "RankLib")}</split>\n</tree>\n'
        for t in range(forest.n_trees)
    ]
    leaves = int(max(forest.leaves[1:] - forest.leaves[:-1]))
    head = f"## LambdaMART\n## No. of trees = {forest.n_trees}\n## No. of leaves = {leaves}\n\n"
    return head + "<ensemble>\n" + "".join(trees) + "</ensemble>\n"

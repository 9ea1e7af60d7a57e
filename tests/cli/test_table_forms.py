"""Tables of commands as LaTeX and Markdown."""

from __future__ import annotations

import luce
from luce.data.simulate import simulate


def test_tables_are_printed_as_latex_and_markdown(call, tmp_path):
    data, file, model = simulate(queries=20, features=3, seed=0), tmp_path / "data.txt", tmp_path / "m.luce"
    luce.write_letor(data, file)
    fitted = luce.Ranker("listnet").fit(data)
    fitted.save(model)
    value = f"{luce.evaluate(fitted, data, ['ndcg@5'])['ndcg@5']:.4f}"
    shell = ("evaluate", file, "--model", model, "--metrics", "ndcg@5")
    code, out, _ = call(*shell, "--latex")
    assert (code, f"ndcg@5 & {value} \\\\" in out, "\\begin{tabular}{lr}" in out) == (0, True, True)
    code, out, _ = call(*shell, "--markdown")
    assert (code, f"| ndcg@5 | {value} |" in out) == (0, True)
    code, out, _ = call("compare", file, "--models", "listnet,ranknet", "--folds", 3, "--jobs", 1, "--markdown")
    assert (code, "| listnet |" in out) == (0, True)
    for two in (("--json", "--latex"), ("--latex", "--markdown")):
        code, _, err = call(*shell, *two)
        assert (code, f"{two[0]} and {two[1]} were given" in err) == (2, True)

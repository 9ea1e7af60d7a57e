"""A real Lucene, with fields as an exported index describes them."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

JARS = [
    jar
    for name in ("core", "analyzers-common", "queries")
    for jar in sorted(Path(os.environ.get("LUCENE_JARS", "/usr/share/java")).glob(f"lucene*-{name}-[89]*.jar"))
]


class Reference(NamedTuple):
    """Scores of pairs, a column a field, and the stems of words."""

    scores: dict[str, np.ndarray]
    stems: list[str]


def run(
    folder: Path,
    fields: Sequence[Sequence[str]],
    documents: Sequence[Sequence[str]],
    pairs: Sequence[tuple[str, int]],
    words: Sequence[str] = (),
) -> Reference:
    """Index documents, a text or more each, and score pairs of a query and the number of a document."""
    if shutil.which("java") is None or len(JARS) < 2:
        pytest.skip("no Java with Lucene's jars (Debian: liblucene8-java and a JDK; LUCENE_JARS names their folder)")
    given = {"fields": fields, "documents": documents, "pairs": pairs, "words": [[word] for word in words]}
    for name, rows in given.items():
        (folder / name).write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    source = Path(__file__).with_name("LuceneReference.java")
    quick = ["-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = ["java", *quick, "-cp", ":".join(map(str, JARS)), str(source)]
    files = [str(folder / name) for name in (*given, "scores", "stems")]
    subprocess.run([*command, *files], check=True, timeout=300, capture_output=True)
    scores = np.loadtxt(folder / "scores", delimiter="\t", usecols=range(len(fields)), ndmin=2)
    stems = (folder / "stems").read_text(encoding="utf-8").split("\n")
    return Reference(dict(zip([field[0] for field in fields], scores.T, strict=True)), stems)


def elasticsearch_fields(index: Mapping[str, Any], order: Sequence[str]) -> list[list[str]]:
    """The subfields of an exported index; `order` are the fields as they stand in a document."""
    analysis, properties = index["settings"]["analysis"], index["mappings"]["properties"]
    found = []
    for owner, settings in properties.items():
        copied = [name for name in order if properties[name].get("copy_to") == owner]
        sources = ",".join(str(order.index(name)) for name in ([owner] if owner in order else copied))
        for name, field in settings["fields"].items():
            analyzer = analysis["analyzer"][field["analyzer"]]
            tokenizer = analysis["tokenizer"][analyzer["tokenizer"]]
            if tokenizer["type"] == "ngram":
                assert tokenizer["min_gram"] == tokenizer["max_gram"]
                assert tokenizer["token_chars"] == ["letter", "digit"]
            kinds = [
                analysis["filter"][one]["type"] if one in analysis["filter"] else one for one in analyzer["filter"]
            ]
            how = field.get("similarity", "tokens")
            if how in index["settings"]["similarity"]:
                how = "{k1},{b}".format(**index["settings"]["similarity"][how])
            assert field["type"] == ("token_count" if how == "tokens" else "text")
            said = str(tokenizer.get("pattern", tokenizer.get("min_gram")))
            kind, group = tokenizer["type"], str(tokenizer.get("group", 0))
            found.append([f"{owner}.{name}", kind, said, group, ",".join(kinds), how, sources])
    return found


_FACTORIES = {
    "LowerCase": "lowercase",
    "ASCIIFolding": "asciifolding",
    "PorterStem": "porter_stem",
    "Shingle": "shingle",
}


def solr_fields(schema: Mapping[str, Any], order: Sequence[str]) -> list[list[str]]:
    """The fields of an exported schema that have a type of its own."""
    types = {one["name"]: one for one in schema["add-field-type"]}
    found = []
    for field in schema["add-field"]:
        if field["type"] not in types:
            continue
        type_ = types[field["type"]]
        tokenizer, similarity = type_["analyzer"]["tokenizer"], type_["similarity"]
        assert tokenizer["class"] == "solr.PatternTokenizerFactory"
        kinds = [one["class"].split(".")[1].removesuffix("FilterFactory") for one in type_["analyzer"]["filters"]]
        boolean = similarity["class"] == "solr.BooleanSimilarityFactory"
        how = "boolean" if boolean else "{k1},{b}".format(**similarity)
        copied = [one["source"] for one in schema["add-copy-field"] if one["dest"] == field["name"]]
        sources = ",".join(str(order.index(name)) for name in copied)
        filters = ",".join(_FACTORIES[kind] for kind in kinds)
        found.append([field["name"], "pattern", tokenizer["pattern"], tokenizer["group"], filters, how, sources])
    return found

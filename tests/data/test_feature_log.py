"""Logged features of Elasticsearch, OpenSearch and Solr, joined with judgement lists."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import luce
from luce.data.readers.feature_log import parse_log
from luce.data.trec import read_judgements
from luce.errors import DataError, LuceWarning, ParseError, SettingError

GRADES = """# qid:1: rambo
# qid:2: rocky balboa
# a remark
4 qid:1 #\t7555 Rambo
3\tqid:1\t#\t1370\tRambo III
2 qid:2 1:0.5 # 4241
"""


def hit(document, **features):
    entries = [{"name": name} | ({} if value is None else {"value": value}) for name, value in features.items()]
    return {"_id": document, "_score": 1.0, "fields": {"_ltrlog": [{"main": entries}]}}


def response(*hits):
    return {"took": 3, "hits": {"total": {"value": len(hits)}, "hits": list(hits)}}


RAMBO = response(hit("7555", title=9.5, body=10.75), hit("1370", title=None, body=2.5))
ROCKY = response(hit("4241", title=1.5))


@pytest.fixture
def grades(tmp_path):
    (tmp_path / "grades.txt").write_text(GRADES)
    return tmp_path / "grades.txt"


def write(folder, *objects, lines=True):
    path = folder / "log.json"
    path.write_text("\n".join(map(json.dumps, objects)) if lines else json.dumps(list(objects)))
    return path


def check(data):
    assert data.query_ids.tolist() == ["1", "2"]
    assert data.document_ids.tolist() == ["7555", "1370", "4241"]
    assert data.y.tolist() == [4, 3, 2]
    assert data.feature_names == ("title", "body")
    np.testing.assert_array_equal(data.X, np.array([[9.5, 10.75], [np.nan, 2.5], [1.5, np.nan]], np.float32))


@pytest.mark.parametrize(
    "objects",
    [
        [{"qid": "1", "response": RAMBO}, {"qid": 2, "response": ROCKY}],
        [{"qid": 1, **RAMBO}, {"query_id": "2", **ROCKY}],
        [{"keywords": "rambo", **RAMBO}, {"query": "rocky balboa", "response": ROCKY}],
        [{"took": 5, "responses": [RAMBO, ROCKY]}],
        [RAMBO, ROCKY],
    ],
    ids=["wrapped", "beside", "words", "msearch", "in order"],
)
@pytest.mark.parametrize("lines", [True, False])
def test_responses_are_joined_by_query(tmp_path, grades, objects, lines):
    check(luce.read(write(tmp_path, *objects, lines=lines or len(objects) == 1), judgements=grades))


def test_compressed_logs(tmp_path, grades):
    path = tmp_path / "log.jsonl.gz"
    with gzip.open(path, "wt") as stream:
        stream.write(json.dumps({"qid": 1, **RAMBO}) + "\n\n" + json.dumps({"qid": 2, **ROCKY}))
    check(luce.read(path, judgements=grades))


def test_absent_features_are_nan_or_zero(tmp_path, grades):
    data = luce.read(write(tmp_path, RAMBO, ROCKY), judgements=grades, absent="zero")
    assert data.X.tolist() == [[9.5, 10.75], [0.0, 2.5], [1.5, 0.0]]
    with pytest.raises(SettingError, match="absent"):
        luce.read(tmp_path / "log.json", judgements=grades, absent="mean")


def test_features_in_the_order_wanted(tmp_path, grades):
    path = write(tmp_path, RAMBO, ROCKY)
    assert luce.read(path, judgements=grades, features=["body"]).X[:, 0].tolist()[:2] == [10.75, 2.5]
    with pytest.raises(ParseError, match="'length' is not in the log"):
        luce.read(path, judgements=grades, features=["length"])


def test_without_judgements_every_document_is_kept(tmp_path):
    data = luce.read(write(tmp_path, {"qid": "b", **RAMBO}, ROCKY))
    assert data.query_ids.tolist() == ["b", "2"]
    assert data.y.tolist() == [0, 0, 0]


def test_what_does_not_join_is_counted(tmp_path, grades):
    more = response(hit("7555", title=1.0), hit("99", title=1.0), hit("98", title=1.0))
    path = write(tmp_path, {"qid": 1, **more}, {"qid": 7, **ROCKY})
    with pytest.warns(LuceWarning, match="2 of 3 documents judged .* and 3 documents there are not judged"):
        data = luce.read(path, judgements=grades)
    assert data.document_ids.tolist() == ["7555"]


def test_nothing_joins(tmp_path, grades):
    path = write(tmp_path, {"qid": 8, **RAMBO})
    with pytest.warns(LuceWarning), pytest.raises(DataError, match=r"No document .* is judged"):
        luce.read(path, judgements=grades)


def test_a_page_logged_again_counts_once(tmp_path, grades):
    again = response(hit("1370", title=5.0, body=2.5))
    data = luce.read(
        write(tmp_path, *({"qid": q, **r} for q, r in ((1, RAMBO), (1, again), (2, ROCKY)))), judgements=grades
    )
    assert data.X[1].tolist() == [5.0, 2.5]


def test_several_logs_of_a_hit(tmp_path):
    both = {
        "_id": "1",
        "fields": {"_ltrlog": [{"a": [{"name": "t", "value": 1.0}]}, {"b": [{"name": "t", "value": 2.0}]}]},
    }
    path = write(tmp_path, {"qid": 1, **response(both)})
    with pytest.raises(ParseError, match="log_name"):
        luce.read(path)
    assert luce.read(path, log_name="b").X.tolist() == [[2.0]]
    logs = [{"a": [{"name": "t", "value": 1.0}, {"name": "u"}]}, {"b": [{"name": "t", "value": 1.0}, {"name": "u"}]}]
    agreeing = {"_id": "1", "fields": {"_ltrlog": logs}}  # equal values, and one that is missing in both
    np.testing.assert_array_equal(luce.read(write(tmp_path, {"qid": 1, **response(agreeing)})).X, [[1.0, np.nan]])


@pytest.mark.parametrize("text", ["title=1.5,body=NaN", "title:1.5 other:2", "title=1.5"])
def test_solr(tmp_path, text):
    document = {"id": "7555", "[features]": text}
    answer = {"responseHeader": {"params": {"q": "rambo"}}, "response": {"numFound": 1, "docs": [document]}}
    log = parse_log(write(tmp_path, answer))
    ((query, documents),) = log
    assert query == "rambo"
    assert documents["7555"]["title"] == 1.5


def test_of_two_values_in_solr_the_last_one_counts(tmp_path):
    path = write(tmp_path, {"qid": 1, "response": {"docs": [{"id": "1", "[features]": "t=1.0,t=2.0"}]}})
    assert luce.read(path).X.tolist() == [[2.0]]


LOGGED = '{"hits": {"hits": [{"_id": "1", "fields": {"_ltrlog": [{"main": [%s]}]}}]}}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "line 1: this is no valid JSON"),
        ("[]", "no response"),
        ("[1]", "JSON object"),
        ('{"took": 1}', "hits.hits"),
        ('{"error": {"type": "parsing_exception"}}', "parsing_exception"),
        ('{"hits": {"hits": [{"_id": "1"}]}}', "has no fields._ltrlog"),
        ('{"hits": {"hits": [{"fields": {}}]}}', "has no _id"),
        (LOGGED % '{"value": 1}', "no object with a name"),
        (LOGGED % '{"name": "a", "value": "x"}', "'x' of 'a'"),
        (LOGGED % '{"name": "a", "value": 1e999}', "finite"),
        ('{"response": {"docs": [{"id": "1"}]}}', "[features]"),
        ('{"response": {"docs": [{"id": "1", "[features]": "title"}]}}', "name=value"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_bad_logs(tmp_path, content, said):
    path = tmp_path / "log.json"
    path.write_text(content)
    with pytest.raises(ParseError) as error:
        luce.read(path)
    assert said in str(error.value)


def test_values_beyond_float32_are_refused(tmp_path):
    with pytest.raises(DataError, match="finite"):
        luce.read(write(tmp_path, {"qid": 1, **response(hit("1", title=1e300))}))


def test_responses_without_a_query(tmp_path, grades):
    with pytest.raises(ParseError, match="name no query"):
        luce.read(write(tmp_path, RAMBO, ROCKY, ROCKY), judgements=grades)


def test_forms_of_judgement_lists(tmp_path):
    expected = {"1": {"7555": 4.0, "1370": 3.0}, "2": {"4241": 2.0}}
    texts = {
        "grades.txt": GRADES,
        "grades.csv": "grade,keywords,docId\n4,1,7555\n3,1,1370\n2,2,4241\n",
        "grades.tsv": "qid\tdocument_id\tlabel\textra\n1\t7555\t4\ta\n1\t1370\t3\tb\n2\t4241\t2\tc\n",
        "qrels": "1 0 7555 4\n1 0 1370 3\n2 0 4241 2\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert read_judgements(tmp_path / name).grades == expected, name


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "4 qid:1 7555\n", "line 1: expected `<grade> qid:<query> # <document>`"),
        ("a.txt", "x qid:1 # 7555\n", "grade is 'x'"),
        ("a.txt", "4 qid:1 # 7555\n3 qid:1 # 7555\n", "line 2: document '7555' of query '1' is judged twice"),
        ("a.txt", "# nothing but this\n", "no judgement"),
        ("a.txt", "", "empty"),
        ("a.csv", "query,grade\na,1\n", "for the document; its columns are query, grade"),
        ("a.csv", "query,doc,grade\na,1\n", "line 2: 2 cells, and the header has 3"),
        ("a.csv", "query,doc,grade\n,7,1\n", "is empty"),
        ("a.csv", "query,doc,grade\n", "no judgement"),
        ("a.csv", None, "does not exist"),
    ],
)
def test_bad_judgement_lists(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as error:
        read_judgements(tmp_path / name)
    assert said in str(error.value)

"""Signatures: who made a model, and that nothing in it can be changed without it."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

import luce
from luce.cli.app import app
from luce.data.simulate import simulate
from luce.errors import DataError, ModelFormatError
from luce.signing import fingerprint, public_keys
from luce.storage import read_container, write_container

serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
RAW = {"encryption_algorithm": serialization.NoEncryption()}


def write_keys(folder, name):
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, **RAW)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / name).write_bytes(private)
    (folder / f"{name}.pub").write_bytes(public)
    ssh = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, **RAW)
    (folder / f"{name}.ssh").write_bytes(ssh)
    ssh = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"{name}.ssh.pub").write_bytes(ssh)
    return folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed")
    write_keys(folder, "key"), write_keys(folder, "other")
    model = luce.Ranker(loss="ranknet", max_iter=3).fit(simulate(queries=20, features=4, seed=0))
    model.save(folder / "signed.luce", sign=folder / "key")
    model.save(folder / "plain.luce")
    return folder


def test_a_signed_model_is_the_same_model(folder):
    signed, plain = (read_container(folder / f"{name}.luce", "ranker") for name in ("signed", "plain"))
    assert signed.settings == plain.settings
    np.testing.assert_equal(signed.arrays, plain.arrays)
    luce.load(folder / "signed.luce")


@pytest.mark.parametrize("form", ["", ".ssh"])
def test_keys_of_both_forms(folder, tmp_path, form):
    luce.load(folder / "plain.luce").save(tmp_path / "m.luce", sign=folder / f"key{form}")
    plain = luce.load(folder / "plain.luce").scorer_.weights
    for trusted in ([folder / "other.pub", folder / f"key{form}.pub"], folder / "key.pub"):
        np.testing.assert_array_equal(luce.load(tmp_path / "m.luce", trusted=trusted).scorer_.weights, plain)


def test_what_is_not_signed_by_a_trusted_key_is_refused(folder):
    with pytest.raises(ModelFormatError, match=r"signed by SHA256:.*trusted are SHA256:"):
        luce.load(folder / "signed.luce", trusted=folder / "other.pub")
    with pytest.raises(ModelFormatError, match="It is not signed"):
        luce.load(folder / "plain.luce", trusted=folder / "key.pub")


def test_nothing_can_be_changed_under_a_signature(folder, tmp_path):
    """Settings, arrays, names, shapes: each changed with a mended checksum and the old signature."""
    raw = (folder / "signed.luce").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    signature = json.loads(raw[8 : 8 + length])["__metadata__"]["signature"]
    changes = [
        lambda s, a: a["weights"].__setitem__(0, a["weights"][0] + 1e-9),
        lambda s, a: s.update(max_grade=7.0),
        lambda s, a: s.update(feature_names=list("abcd")),
        lambda s, a: a.update(more=np.ones(3)),
    ]
    for change in changes:
        _, settings, arrays = read_container(folder / "signed.luce", "ranker")
        change(settings, arrays)
        write_container(tmp_path / "m.luce", "ranker", settings, arrays, sign=lambda _: signature)
        with pytest.raises(ModelFormatError, match="changed after"):
            luce.load(tmp_path / "m.luce", trusted=folder / "key.pub")
    for text in (
        "7",
        "{",
        json.dumps({"algorithm": "none"}),
        "[" * 10_000,
        json.dumps({**json.loads(signature), "public_key": "00"}),
    ):
        write_container(tmp_path / "m.luce", "ranker", settings, arrays, sign=lambda _, text=text: text)
        with pytest.raises(ModelFormatError, match="not to be trusted"):
            luce.load(tmp_path / "m.luce", trusted=folder / "key.pub")


def test_files_that_are_no_keys(folder, tmp_path):
    locked = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption_algorithm=serialization.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "locked").write_bytes(locked)
    (tmp_path / "text").write_text("no key")
    model = luce.load(folder / "plain.luce")
    for name, said in (("locked", "has a password"), ("text", "is no private key"), ("none", "cannot be read")):
        with pytest.raises(DataError, match=said):
            model.save(tmp_path / "m.luce", sign=tmp_path / name)
    with pytest.raises(DataError, match="is no public key"):
        public_keys([folder / "key"])
    with pytest.raises(DataError, match="is no private key"):
        model.save(tmp_path / "m.luce", sign=folder / "key.pub")
    assert not (tmp_path / "m.luce").exists()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_the_fingerprint_is_that_of_ssh(folder):
    done = subprocess.run(
        ["ssh-keygen", "-lf", folder / "key.ssh.pub"], capture_output=True, text=True, check=True, timeout=300
    )
    assert fingerprint(public_keys([folder / "key.pub"])[0]) in done.stdout


def test_the_command_line_signs_and_says_by_whom(folder, tmp_path):
    lines = [f"{i % 3} qid:{i // 5} 1:{i % 7} 2:{i % 4}" for i in range(40)]
    (tmp_path / "d.txt").write_text("\n".join(lines) + "\n")
    train = [
        "train",
        str(tmp_path / "d.txt"),
        "--loss",
        "ranknet",
        "--max-iter",
        "2",
        "--out",
        str(tmp_path / "m.luce"),
    ]
    done = CliRunner().invoke(app, [*train, "--sign", str(folder / "key")])
    assert done.exit_code == 0, done.output
    told = json.loads(CliRunner().invoke(app, ["info", str(tmp_path / "m.luce"), "--json"]).stdout)
    assert told["signed_by"] == fingerprint(public_keys([folder / "key.pub"])[0])
    refused = CliRunner().invoke(app, [*train, "--sign", str(folder / "key.pub")])
    assert isinstance(refused.exception, DataError)

"""Signatures of model files by Ed25519: who made a file, which no checksum can say.

Keys are files that other tools make: `ssh-keygen -t ed25519 -f key`, or `openssl genpkey -algorithm ed25519`. A
signature is kept inside the file it is of, as JSON with the public key; whether that key is to be trusted, the reader
decides.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from luce.errors import DataError, ModelFormatError, needing

Signer = Callable[[bytes], str]
"""Gives the signature of a message, as a file keeps it."""


def _module(name: str) -> Any:
    with needing("A signature", "sign"):
        found = import_module(f"cryptography.{name}")
    return found


def signer_of(path: str | Path) -> Signer:
    """What signs with the private key of a file, PEM or OpenSSH, without a password."""
    key = _key(path, "private")
    public = key.public_key().public_bytes_raw()

    def sign(message: bytes) -> str:
        parts = {"algorithm": "ed25519", "public_key": public.hex(), "signature": key.sign(message).hex()}
        return json.dumps(parts)

    return sign


def public_keys(paths: Sequence[str | Path]) -> list[bytes]:
    """The public keys of files, PEM or OpenSSH."""
    return [_key(path, "public").public_bytes_raw() for path in paths]


def _key(path: str | Path, kind: str) -> Any:
    path = Path(path)
    formats, kinds = _module("hazmat.primitives.serialization"), _module("hazmat.primitives.asymmetric.ed25519")
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DataError(f"The {kind} key {path} cannot be read: {error.strerror}; check the name.") from error
    password = {"password": None} if kind == "private" else {}
    key, protected = None, False
    for form in ("pem", "ssh"):
        try:
            key = getattr(formats, f"load_{form}_{kind}_key")(text, **password)
            break
        except TypeError:  # this is how the library says that it misses a password
            protected = True
        except (ValueError, _module("exceptions").UnsupportedAlgorithm):
            continue
    if protected:
        raise DataError(f"The private key {path} has a password; give one without (ssh-keygen -p removes it).")
    wanted = kinds.Ed25519PrivateKey if kind == "private" else kinds.Ed25519PublicKey
    if not isinstance(key, wanted):
        raise DataError(f"{path} is no {kind} key of Ed25519; make a pair by `ssh-keygen -t ed25519 -f NAME`.")
    return key


def fingerprint(public: bytes) -> str:
    """A key as people compare it, in the form of `ssh-keygen -l`.

    >>> fingerprint(bytes(32))[:14]
    'SHA256:kmYcvdi'
    """
    name = b"ssh-ed25519"
    blob = len(name).to_bytes(4, "big") + name + len(public).to_bytes(4, "big") + public
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def checked_by(message: bytes, signature: str | None) -> bytes | None:
    """The public key that a message was signed with, None for no signature; one that is wrong is an error."""
    if signature is None:
        return None
    try:
        parts = json.loads(signature)
        public, value = bytes.fromhex(parts["public_key"]), bytes.fromhex(parts["signature"])
        if parts["algorithm"] != "ed25519":
            raise ValueError(parts["algorithm"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFormatError("Its signature is damaged.") from error
    try:
        key = _module("hazmat.primitives.asymmetric.ed25519").Ed25519PublicKey.from_public_bytes(public)
        key.verify(value, message)
    except (ValueError, _module("exceptions").InvalidSignature) as error:
        raise ModelFormatError("Its signature is not of this content: the file was changed after it.") from error
    return public

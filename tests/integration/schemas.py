# SPDX-License-Identifier: MIT
"""What --json of each verb must look like: tests/schemas/VERB.json."""
import functools
import json

import pytest

from node import SRC

SCHEMAS = SRC / "tests/schemas"


@functools.cache
def validator(verb):
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft7Validator(json.loads((SCHEMAS / f"{verb}.json").read_text()))


def fits(verb, text):
    """The document; fails where it is none of that verb."""
    document = json.loads(text)
    validator(verb).validate(document)
    return document

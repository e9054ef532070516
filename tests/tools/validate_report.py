#!/usr/bin/python3
"""Holds a JSON report against its schema: validate_report.py SCHEMA REPORT. Prints "valid"."""
import json
import sys

import jsonschema


def refuse_constant(name):
    """Python reads NaN and Infinity, which JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def main():
    schema_file, report_file = sys.argv[1:]
    with open(schema_file, encoding="utf-8") as file:
        schema = json.load(file)
    with open(report_file, encoding="utf-8") as file:
        report = json.load(file, parse_constant=refuse_constant)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(report)
    print("valid")


if __name__ == "__main__":
    main()

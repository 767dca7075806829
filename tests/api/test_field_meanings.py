"""What REST has is described, to the last field and parameter."""

from __future__ import annotations

from tools.openapi import document


def test_every_field_and_parameter_is_described() -> None:
    found = document()
    fields = {
        (name, field): schema.get("description")
        for name, model in found["components"]["schemas"].items()
        for field, schema in model.get("properties", {}).items()
    }
    parameters = {
        (path, method, each["name"]): each.get("description")
        for path, operations in found["paths"].items()
        for method, operation in operations.items()
        for each in operation.get("parameters", [])
    }
    assert len(fields) > 200
    assert len(parameters) > 30
    assert [at for at, said in [*fields.items(), *parameters.items()] if not said] == []


def test_operations_are_called_as_their_functions() -> None:
    """Generated clients have them by these names."""
    found = [each for operations in document()["paths"].values() for each in operations.values()]
    names = [each["operationId"] for each in found]
    assert len(names) == len({*names})
    assert {"fail_over", "get_readiness", "list_connectors"} <= {*names}
    assert all(each["summary"] == each["operationId"].replace("_", " ").capitalize() for each in found)

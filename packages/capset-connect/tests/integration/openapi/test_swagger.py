"""Swagger 2.0 as Kubernetes, Netlify, Okta and the pet store write it, and OpenAPI 3.2 (spec 7, M107)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capset_connect.openapi.document import parse_document
from capset_connect.openapi.operations import offers_of
from capset_connect.pins.offers import Offer
from tests.helpers.connect.openapi.documents import api, doc
from tests.helpers.connect.openapi.support import echo, opened, serving, things
from tests.helpers.connect.openapi.upload_support import encoded

KUBERNETES = """
swagger: "2.0"
info: {title: Kubernetes, version: v1.31.0}
paths:
  /api/v1/namespaces/{namespace}/pods/{name}:
    parameters:
      - {uniqueItems: true, type: string, description: name of the Pod, name: name, in: path, required: true}
      - {$ref: '#/parameters/namespace'}
      - {$ref: '#/parameters/pretty-tJGM1-ng'}
    get:
      operationId: readCoreV1NamespacedPod
      consumes: ['*/*']
      produces: [application/json, application/yaml, application/vnd.kubernetes.protobuf]
      schemes: [https]
      tags: [core_v1]
      responses: {200: {description: OK, schema: {$ref: '#/definitions/io.k8s.api.core.v1.Pod'}}}
    patch:
      operationId: patchCoreV1NamespacedPod
      consumes:
        - application/json-patch+json
        - application/merge-patch+json
        - application/strategic-merge-patch+json
        - application/apply-patch+yaml
      parameters:
        - name: body
          in: body
          required: true
          schema: {$ref: '#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch'}
        - {uniqueItems: true, type: boolean, name: force, in: query}
    put:
      operationId: replaceCoreV1NamespacedPod
      consumes: ['*/*']
      parameters: [{name: body, in: body, required: true, schema: {$ref: '#/definitions/io.k8s.api.core.v1.Pod'}}]
definitions:
  io.k8s.api.core.v1.Pod:
    type: object
    properties:
      kind: {type: string, description: Kind.}
      port: {$ref: '#/definitions/io.k8s.apimachinery.pkg.util.intstr.IntOrString'}
      validation: {$ref: '#/definitions/JSONSchemaProps'}
    x-kubernetes-group-version-kind: [{group: "", kind: Pod, version: v1}]
  io.k8s.apimachinery.pkg.apis.meta.v1.Patch: {type: object, description: A patch.}
  io.k8s.apimachinery.pkg.util.intstr.IntOrString: {type: string, format: int-or-string}
  JSONSchemaProps:
    type: object
    properties:
      $ref: {type: string}
      items: {$ref: '#/definitions/JSONSchemaProps'}
      required: {type: array, items: {type: string}}
parameters:
  namespace: {uniqueItems: true, type: string, name: namespace, in: path, required: true}
  pretty-tJGM1-ng: {uniqueItems: true, type: string, name: pretty, in: query}
securityDefinitions:
  BearerToken: {type: apiKey, name: authorization, in: header, description: Bearer Token authentication}
security: [{BearerToken: []}]
"""

NETLIFY = """
swagger: '2.0'
info: {version: 2.33.1, title: Netlify's API documentation}
host: api.netlify.com
basePath: /api/v1
schemes: [https]
consumes: [application/json]
produces: [application/json]
securityDefinitions:
  netlifyAuth: {type: oauth2, flow: implicit, authorizationUrl: 'https://app.netlify.com/authorize'}
security: [{netlifyAuth: []}]
paths:
  /sites:
    get:
      operationId: listSites
      tags: [site]
      parameters:
        - {name: name, in: query, type: string}
        - {name: filter, in: query, type: string, enum: [all, owner, guest]}
        - $ref: '#/parameters/page'
      responses: &answers
        '200': {description: OK}
        default: &error {$ref: '#/responses/error'}
  /deploys/{deploy_id}/files/{path}:
    parameters:
      - {name: deploy_id, type: string, in: path, required: true}
      - {name: path, type: string, in: path, required: true}
    put:
      operationId: uploadDeployFile
      consumes: [application/octet-stream]
      parameters:
        - {name: size, type: integer, in: query}
        - {name: file_body, in: body, schema: {type: string, format: binary}, required: true}
      responses: {<<: *answers, '404': *error}
parameters:
  page: {type: integer, format: int32, name: page, in: query, required: false}
responses:
  error: {description: error}
"""

OKTA: dict[str, Any] = {
    "swagger": "2.0",
    "host": "your-subdomain.okta.com",
    "basePath": "/",
    "schemes": ["https"],
    "securityDefinitions": {"api_token": {"type": "apiKey", "name": "Authorization", "in": "header"}},
    "security": [{"api_token": []}],
    "paths": {
        "/api/v1/apps": {
            "get": {
                "operationId": "listApplications",
                "parameters": [
                    {"name": "limit", "in": "query", "type": "integer", "format": "int32", "default": -1},
                    {"name": "includeNonDeleted", "in": "query", "type": "boolean", "default": False},
                ],
            },
            "post": {
                "operationId": "createApplication",
                "consumes": ["application/json"],
                "parameters": [
                    {"name": "OktaAccessGateway-Agent", "in": "header", "type": "string"},
                    {"in": "body", "name": "application", "required": True, "schema": {"$ref": "#/definitions/App"}},
                ],
                "x-okta-lifecycle": {"isGenerallyAvailable": True},
            },
        }
    },
    "definitions": {
        "App": {
            "type": "object",
            "discriminator": "signOnMode",
            "properties": {
                "id": {"type": "string", "readOnly": True},
                "label": {"type": "string", "x-nullable": True},
                "signOnMode": {"$ref": "#/definitions/Mode"},
                "_links": {"type": "object", "readOnly": True, "additionalProperties": {"type": "object"}},
            },
            "x-okta-tags": ["Application"],
        },
        "Mode": {"type": "string", "enum": ["BOOKMARK", "SAML_2_0"]},
    },
}

PET_STORE: dict[str, Any] = {
    "swagger": "2.0",
    "host": "petstore.swagger.io",
    "basePath": "/v2",
    "schemes": ["http", "https"],
    "securityDefinitions": {
        "api_key": {"type": "apiKey", "name": "api_key", "in": "header"},
        "petstore_auth": {"type": "oauth2", "flow": "implicit", "scopes": {"write:pets": "modify pets"}},
        "simple": {"type": "basic"},
    },
    "paths": {
        "/pet": {
            "post": {
                "operationId": "addPet",
                "consumes": ["application/xml", "application/json"],
                "parameters": [
                    {"in": "body", "name": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
                ],
            }
        },
        "/pet/findByStatus": {
            "get": {
                "operationId": "findPetsByStatus",
                "parameters": [
                    {
                        "name": "status",
                        "in": "query",
                        "description": "Status values",
                        "required": True,
                        "type": "array",
                        "items": {"type": "string", "enum": ["available", "sold"], "default": "available"},
                        "collectionFormat": "multi",
                    },
                    {"name": "tags", "in": "query", "type": "array", "items": {"type": "string"}},
                    {"name": "ids", "in": "query", "type": "array", "collectionFormat": "ssv", "items": {}},
                    {"name": "rows", "in": "query", "type": "array", "collectionFormat": "tsv", "items": {}},
                ],
            }
        },
        "/pet/{petId}": {
            "post": {
                "operationId": "updatePetWithForm",
                "consumes": ["application/x-www-form-urlencoded"],
                "parameters": [
                    {"name": "petId", "in": "path", "required": True, "type": "integer", "format": "int64"},
                    {"name": "name", "in": "formData", "description": "Its new name", "type": "string"},
                    {"name": "tags", "in": "formData", "type": "array", "items": {"type": "string"}},
                ],
            }
        },
        "/pet/{petId}/uploadImage": {
            "post": {
                "operationId": "uploadFile",
                "consumes": ["multipart/form-data"],
                "parameters": [
                    {"name": "petId", "in": "path", "required": True, "type": "integer"},
                    {"name": "note", "in": "formData", "type": "string"},
                    {"name": "tags", "in": "formData", "type": "array", "items": {"type": "string"}},
                    {"name": "file", "in": "formData", "required": True, "type": "file"},
                ],
            }
        },
        "/user/login": {"get": {"operationId": "loginUser", "security": [{"simple": []}]}},
    },
    "definitions": {
        "Pet": {
            "type": "object",
            "required": ["name", "photoUrls"],
            "properties": {
                "name": {"type": "string", "example": "doggie"},
                "photoUrls": {"type": "array", "xml": {"wrapped": True}, "items": {"type": "string"}},
            },
            "xml": {"name": "Pet"},
        }
    },
}


def offers(text: str, **options: Any) -> dict[str, Offer]:
    return {offer.name: offer for offer in offers_of(api(**options), parse_document(text.encode(), "it"))}


@pytest.mark.spec("M107")
def test_kubernetes() -> None:
    operations = offers(KUBERNETES, url="https://cluster.example", credentials={"BearerToken": "Bearer x"})
    assert all(offer.problems == () for offer in operations.values())
    read, patch, put = (operations[f"{verb}CoreV1NamespacedPod"].shape for verb in ("read", "patch", "replace"))
    assert read["inputSchema"]["properties"] == {
        "name": {"type": "string", "uniqueItems": True, "description": "name of the Pod"},
        "namespace": {"type": "string", "uniqueItems": True},
        "pretty": {"type": "string", "uniqueItems": True},
    }
    assert read["inputSchema"]["required"] == ["name", "namespace"]
    assert patch["arguments"]["body"] == {"in": "body", "media": "application/merge-patch+json"}
    assert put["arguments"]["body"] == {"in": "body", "media": "application/json"}
    assert put["inputSchema"]["properties"]["body"] == {"$ref": "#/$defs/io.k8s.api.core.v1.Pod"}
    assert put["inputSchema"]["$defs"]["JSONSchemaProps"]["properties"]["$ref"] == {"type": "string"}
    (named,) = {offer.problems for offer in offers(KUBERNETES).values()}
    assert named == ("its server '/' is not an absolute URL; give the url of the API",)


@pytest.mark.spec("M107")
def test_netlify() -> None:
    operations = offers(NETLIFY, credentials={"netlifyAuth": "x"})
    assert all(offer.problems == () for offer in operations.values())
    assert operations["listSites"].shape["server"] == "https://api.netlify.com/api/v1"
    assert operations["listSites"].shape["security"] == [[{"scheme": "netlifyAuth", "type": "oauth2"}]]
    assert operations["listSites"].shape["inputSchema"]["properties"]["page"] == {"type": "integer", "format": "int32"}
    upload = operations["uploadDeployFile"].shape
    assert upload["arguments"]["body"] == {"in": "body", "media": "application/octet-stream", "file": True}
    assert upload["inputSchema"]["required"] == ["body", "deploy_id", "path"]


@pytest.mark.spec("M107")
def test_okta() -> None:
    operations = offers(json.dumps(OKTA), credentials={"api_token": "SSWS x"})
    assert all(offer.problems == () for offer in operations.values())
    assert operations["listApplications"].shape["server"] == "https://your-subdomain.okta.com"
    assert operations["listApplications"].shape["inputSchema"]["properties"]["limit"]["description"] == "Default: -1."
    created = operations["createApplication"].shape
    assert [*created["arguments"]] == ["oktaaccessgateway-agent", "body"]
    assert created["inputSchema"]["$defs"]["App"] == {
        "type": "object",
        "properties": {"label": {"type": ["string", "null"]}, "signOnMode": {"$ref": "#/$defs/Mode"}},
    }


@pytest.mark.spec("M107")
async def test_the_pet_store_is_called() -> None:
    async with serving(echo()) as server, opened(things(server, PET_STORE, credentials={"simple": "ada:x"})) as site:
        await site.call("things_findPetsByStatus", status=["sold", "available"], tags=["x&y", "z"], ids=["1", "2"])
        assert server.last.target == "/pet/findByStatus?status=sold&status=available&tags=x%26y,z&ids=1%202"
        await site.call("things_addPet", body={"name": "Rex", "photoUrls": []})
        assert json.loads(server.last.body) == {"name": "Rex", "photoUrls": []}
        await site.call("things_updatePetWithForm", petId=7, body={"name": "Rex", "tags": ["a", "b"]})
        assert (server.last.target, server.last.body) == ("/pet/7", b"name=Rex&tags=a,b")
        await site.call("things_uploadFile", petId=7, body={"file": encoded(b"png", "rex.png"), "note": "n"})
        assert b'name="file"; filename="rex.png"' in server.last.body
        await site.call("things_loginUser")
        assert server.last.headers["authorization"] == "Basic YWRhOng="
    upload = offers(json.dumps(PET_STORE))["uploadFile"]
    assert upload.notes == ("left out: its body: the style of 'tags' cannot be sent",), "one part that joins them"
    find = offers(json.dumps(PET_STORE))["findPetsByStatus"]
    assert find.notes == (
        "left out: its parameter 'rows' has the style 'tsv'; in a query, form or spaceDelimited or pipeDelimited or "
        "deepObject can be sent",
    )
    assert find.shape["server"] == "https://petstore.swagger.io/v2"


@pytest.mark.spec("M107")
def test_what_2_0_cannot_mean_is_a_problem_of_its_operation_alone() -> None:
    odd = {"name": "a", "in": "query", "type": "array", "items": {"type": "array", "items": {}}, "required": True}
    paths: dict[str, Any] = {
        "/a": {"get": {"operationId": "nested", "parameters": [odd]}},
        "/b": {"post": {"operationId": "gone", "parameters": [{"in": "body", "name": "b", "schema": {"$ref": "#/x"}}]}},
        "/c": {
            "get": {"operationId": "body", "parameters": [{"in": "body", "name": "b", "schema": {"type": "object"}}]}
        },
        "/d": {"get": {"operationId": "fine", "schemes": ["http"], "security": None}},
    }
    text = json.dumps(
        {"swagger": "2.0", "host": "a.example", "securityDefinitions": [], "consumes": None, "paths": paths}
    )
    operations = offers(text)
    assert "which the style 'form' cannot send" in operations["nested"].problems[0]
    assert "leads to nothing" in operations["gone"].problems[0]
    assert (operations["body"].problems, operations["body"].notes) == (
        ("its server '//a.example/' is not an absolute URL; give the url of the API",),
        (),
    )
    assert (operations["fine"].problems, operations["fine"].shape["server"]) == ((), "http://a.example")


@pytest.mark.spec("M107")
def test_3_2_is_read_as_3_1_where_it_can_be() -> None:
    typed = {"$ref": "#/components/mediaTypes/Thing"}
    item: dict[str, Any] = {
        "post": {"operationId": "make", "requestBody": {"content": {"application/json": typed}}},
        "query": {"operationId": "query"},
        "get": {
            "operationId": "read",
            "parameters": [{"in": "querystring", "name": "all", "content": {"text/plain": {}}}],
        },
        "additionalOperations": {"LINK": {"operationId": "link"}},
    }
    components = {"mediaTypes": {"Thing": {"schema": {"type": ["object", "null"]}}}}
    dialect = "https://spec.openapis.org/oas/3.2/dialect/2025-09-17"
    document = doc("3.2.0", paths={"/a": item}, components=components, jsonSchemaDialect=dialect)
    operations = {offer.name: offer for offer in offers_of(api(), document)}
    assert operations["make"].shape["inputSchema"]["properties"]["body"] == {"type": ["object", "null"]}
    assert operations["query"].problems == ("its method is QUERY, which is not sent",)
    assert operations["link"].problems == ("its method is LINK, which is not sent",)
    assert operations["read"].problems == ()
    assert operations["read"].notes[0].startswith("left out: its parameter 'all' is in 'querystring'")

"""OpenAPI documents of a library, and the tools that become of them."""

from __future__ import annotations

from typing import Any

from capset_connect.openapi.api import OpenApi
from capset_connect.openapi.document import ApiDocument, document_of
from capset_connect.openapi.operations import offers_of
from capset_connect.pins.offers import Offer

LIBRARY = """
openapi: 3.0.3
info: {title: Library, version: 1.10, on: 2024-01-01}
servers:
  - url: https://{region}.library.example/v1/
    variables: {region: {default: eu}}
paths:
  /books/{id}:
    parameters:
      - $ref: '#/components/parameters/Id'
    get:
      operationId: books.get
      summary: Get a book
      description: By its number.
      deprecated: true
      parameters:
        - {name: id, in: query, description: Another id., schema: {type: integer, default: 7}}
        - {name: 'filter[name]', in: query, schema: {type: string, nullable: true, enum: [on, no]}}
        - {name: Accept, in: header, schema: {type: string}}
      responses: {200: {description: A book}}
    put:
      tags: [change]
      requestBody:
        $ref: '#/components/requestBodies/Book'
      responses: {204: {description: Done}}
components:
  parameters:
    Id: {name: id, in: path, required: true, schema: {type: integer, minimum: 0, exclusiveMinimum: true}}
  requestBodies:
    Book:
      required: true
      content:
        application/json: {schema: {$ref: '#/components/schemas/Book'}}
  schemas:
    Book:
      type: object
      required: [id, title]
      properties:
        id: {type: integer, readOnly: true}
        title: {type: string, example: Emma, x-note: none}
        pin: {type: string, format: password}
        sequel: {$ref: '#/components/schemas/Book', description: ignored}
        cover: {nullable: true, allOf: [{$ref: '#/components/schemas/Cover'}]}
        price: {type: number, maximum: 10, exclusiveMaximum: false}
        "on": {type: boolean}
    Cover: {type: object, additionalProperties: {type: string}, discriminator: {propertyName: kind}}
"""


def api(**options: Any) -> OpenApi:
    settings: dict[str, Any] = {"name": "lib", "document": {}, **options}
    return OpenApi(**settings)


def doc(version: str = "3.1.0", **top: Any) -> ApiDocument:
    return document_of({"openapi": version, "servers": [{"url": "https://a.example"}], **top})


def one(operation: dict[str, Any], *, path: str = "/a", method: str = "get", **top: Any) -> Offer:
    """Return the offer of a document with one operation."""
    (offer,) = offers_of(api(), doc(paths={path: {method: {"operationId": "a", **operation}}}, **top))
    return offer

"""`spec.catalog`: the Iceberg catalog. Its properties go to Iceberg as they are, uninterpreted."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from icdc_api.base import ApiModel
from icdc_api.problems import build_problem

OBJECT_NAME_FORM = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
"""Of the name of an object of Kubernetes."""
CATALOG_NAME_FORM = r"^[A-Za-z0-9_][A-Za-z0-9_-]*$"

SecretName = Annotated[
    str, StringConstraints(pattern=OBJECT_NAME_FORM, min_length=1, max_length=253)
]
# A part of Spark property names (spark.sql.catalog.NAME.…), so it has no dots.
CatalogName = Annotated[str, StringConstraints(pattern=CATALOG_NAME_FORM, max_length=63)]
PropertyValue = Annotated[str, StringConstraints(max_length=4096)]
CATALOG_KIND_RULE = "a catalog needs the property type or catalog-impl"
JDBC_NAME_RULE = (
    "a JDBC catalog has only the tables that were written under its name: is catalog.name, which "
    "is {name}, the one that the writers use?"
)
"""What messages add where a table is not found: under another name all tables seem to be gone."""


class SecretRef(ApiModel):
    """A Secret in the namespace of the pipeline."""

    name: SecretName
    """Name of the Secret. In local runs: the directory of that name in `--secrets-dir`."""


class SecretSource(ApiModel):
    """Values that come from a Secret."""

    secret_ref: SecretRef
    """The Secret. It is mounted into the run and never copied into another object."""


class CatalogTls(ApiModel):
    """Which certificates are trusted."""

    ca_from: SecretSource
    """Secret whose key `ca.crt` holds certificates to trust beside the usual ones, as PEM.
    Required."""


class Catalog(ApiModel):
    """An Iceberg catalog."""

    name: CatalogName = "lake"
    """Name of the catalog. Default lake. JDBC catalogs store this name in their rows, so under
    another name they seem empty."""
    properties: Annotated[dict[str, PropertyValue], Field(max_length=128)] = Field(
        default_factory=dict
    )
    """Catalog properties, passed to Iceberg unchanged: type, uri, warehouse, io-impl, s3.*,
    client.region and so on. Default empty. Either type or catalog-impl must be here or in
    propertiesFrom. A change takes effect with the next run."""
    properties_from: Annotated[tuple[SecretSource, ...], Field(max_length=16)] = ()
    """Secrets whose keys are further properties. Default empty. They take precedence over
    `properties`, and a later Secret over an earlier one."""
    # None and not an empty object: an image that does not know the field refuses it.
    tls: CatalogTls | None = None
    """Trust for the certificates of the catalog, its token server and its object store. Default:
    the usual authorities alone."""

    @property
    def authority_secret(self) -> str | None:
        """Return the name of the Secret with the certificates to trust; None without one."""
        return None if self.tls is None else self.tls.ca_from.secret_ref.name

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of all Secrets that the catalog needs."""
        authority = () if self.authority_secret is None else (self.authority_secret,)
        return (*(source.secret_ref.name for source in self.properties_from), *authority)

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        # With a Secret the kind may be in it, which only a run can read.
        if not self.properties_from and not {"type", "catalog-impl"} & self.properties.keys():
            raise build_problem(CATALOG_KIND_RULE, "properties")
        return self

"""Properties of authorization. Sources as in :mod:`muster.actors.config.properties`."""

from __future__ import annotations

from pydantic import BaseModel, Field

from muster.actors.config.types import AuthorizerClass, Bool, SuperUsers


class AuthorizerProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    # authorization
    authorizer_class_name: AuthorizerClass = Field(
        "",
        description="Whether ACLs decide what clients may do: org.apache.kafka.metadata.authorizer.StandardAuthorizer "
        "or kafka.security.authorizer.AclAuthorizer, which mean the same here. Empty: everyone may do everything.",
    )
    super_users: SuperUsers = Field(
        "", description="Principals that may do everything, as User:NAME with semicolons; ACLs do not apply to them."
    )
    allow_everyone_if_no_acl_found: Bool = Field(
        False, description="Whether everyone may do everything with a resource that no ACL is about."
    )

    @property
    def super_user_principals(self) -> frozenset[str]:
        """Those of ``super.users``."""
        return frozenset(filter(None, self.super_users.split(";")))

    def authorizer_problem(self, authenticates: bool) -> str | None:
        """Why no client could ever change an ACL. ``authenticates``: whether a listener makes clients log in."""
        if not self.authorizer_class_name or self.super_users or self.allow_everyone_if_no_acl_found or authenticates:
            return None
        return (
            "authorizer.class.name needs super.users or a listener where clients log in: else no client could ever "
            "create an ACL"
        )

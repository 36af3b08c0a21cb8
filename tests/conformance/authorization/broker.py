"""A real Kafka with an authorizer, which knows its clients by SASL PLAIN."""

from __future__ import annotations

from tests.conformance.artifacts import Kafka
from tests.conformance.kafka import KafkaBroker
from tests.gateway.authorization.world import ADMIN, PASSWORD, USERS
from tests.gateway.quotas import world as quotas

_CREDENTIALS = " ".join(f'user_{user}="{PASSWORD}"' for user in (*USERS, *quotas.USERS))
PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{ADMIN}" password="{PASSWORD}" {_CREDENTIALS};'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": ";".join(f"User:{user}" for user in (ADMIN, "ANONYMOUS", *quotas.USERS)),
}
"""Brokers and controllers know each other as ANONYMOUS."""


LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": ADMIN,
    "sasl.password": PASSWORD,
}


def authorizing_broker(release: Kafka) -> KafkaBroker:
    """Its clients are the users of :mod:`tests.gateway.authorization.world` and :mod:`tests.gateway.quotas.world`."""
    return KafkaBroker(PROPERTIES, release=release, login=LOGIN)

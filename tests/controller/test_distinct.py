"""Two gateways that advertise one address."""

from __future__ import annotations

from muster.actors.controller.distinct import distinct
from muster.placement.view import Broker, BrokerAddress


def broker(broker_id: int, port: int, further: int) -> Broker:
    addresses = (BrokerAddress("EXTERNAL", "kafka.example.com", further),)
    return Broker(id=broker_id, host="10.0.0.1", port=port, node_id="n", further=addresses)


def test_the_one_with_the_lower_id_stays() -> None:
    one, two, three = broker(1, 9092, 443), broker(2, 9093, 443), broker(3, 9094, 444)
    assert distinct([three, two, one]) == (
        (one, three),
        {
            2: "gateways 1 and 2 both advertise kafka.example.com:443; "
            "put {id}, {host} or {label:NAME} into advertised.listeners"
        },
    )


def test_what_is_left_out_takes_no_address() -> None:
    """In two conflicts with the same gateway, only the gateway that serves counts."""
    one, two, three = broker(1, 9092, 443), broker(2, 9093, 443), broker(3, 9093, 444)
    assert distinct([one, two, three])[0] == (one, three)

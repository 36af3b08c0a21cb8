"""Ships orders, and loses some: it commits first, "so that no order is shipped twice".

usage: python -m examples.committing_first BOOTSTRAP GROUP TOPIC BOOK
"""

import sys
from pathlib import Path

from confluent_kafka import Consumer, KafkaException


def main(bootstrap: str, group: str, topic: str, book: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": "shipping-1",  # started again, it has its partitions back at once
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        consumer.commit(message=message, asynchronous=False)
        ship(message.value() or b"", book)


def ship(order: bytes, book: str) -> None:
    """Ship an order; here a line in the book of what has left the house."""
    with Path(book).open("ab") as lines:
        lines.write(order + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Packets of the loopback interface, as the kernel hands them to everybody who may listen (packet(7))."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections.abc import Iterable

_ETH_P_IP = 0x0800
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 26, 33
_MAX_PACKET_BYTES = 1 << 18
_POLL_S = 0.2
_JOIN_S = 60

# Classic BPF (kernel: Documentation/networking/filter.rst): instructions of a filter.
_LOAD_BYTE, _LOAD_HALF_AT_X, _X_IS_HEADER_LENGTH = 0x30, 0x48, 0xB1
_JUMP_IF_EQUAL, _RETURN = 0x15, 0x06
_PROTOCOL_AT = 9
_EVERYTHING = 0xFFFFFFFF


class PacketsLost(RuntimeError):
    """The kernel dropped or cut packets, so nothing can be said about the connections."""


class Capture:
    """``with Capture(ports) as capture``: all TCP packets over IPv4 from and to these local ports. Needs CAP_NET_RAW.

    Raises PermissionError without it. Each packet is captured once, when it arrives.
    """

    RECEIVE_BUFFER_BYTES = 128 << 20

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = sorted(set(ports))
        self._packets: list[bytes] = []
        self._is_cut = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, name="capture", daemon=True)

    def __enter__(self) -> Capture:
        # A socket for one protocol is given only packets that arrive; one for all of them, also those that leave.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, self.RECEIVE_BUFFER_BYTES)
        self._filter()
        self._socket.settimeout(_POLL_S)
        self._socket.bind(("lo", _ETH_P_IP))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._socket.close()

    def stop(self) -> list[bytes]:
        """All packets since the start, from the IP header on. Raises PacketsLost if there were more."""
        self._end()
        _, dropped = struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        if dropped or self._is_cut:
            raise PacketsLost(f"the kernel dropped {dropped} packets" if dropped else "a packet was cut off")
        return self._packets

    def _end(self) -> None:
        self._stopping.set()
        self._thread.join(_JOIN_S)

    def _read(self) -> None:
        """Until nothing arrives any more after the end."""
        while True:
            try:
                packet, _, flags, _ = self._socket.recvmsg(_MAX_PACKET_BYTES)
            except TimeoutError:
                if self._stopping.is_set():
                    return
            else:
                self._is_cut = self._is_cut or bool(flags & socket.MSG_TRUNC)
                self._packets.append(packet)

    def _filter(self) -> None:
        program = port_filter(self._ports)
        held = ctypes.create_string_buffer(program, len(program))
        described = struct.pack("HL", len(program) // 8, ctypes.addressof(held))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def port_filter(ports: Iterable[int]) -> bytes:
    """Return a BPF program that accepts TCP packets from or to these ports; they begin with the IP header."""
    wanted = sorted(set(ports))
    accept = 2 * len(wanted) + 6
    reject = accept - 1
    program = [
        (_LOAD_BYTE, 0, 0, _PROTOCOL_AT),
        (_JUMP_IF_EQUAL, 0, reject - 2, socket.IPPROTO_TCP),
        (_X_IS_HEADER_LENGTH, 0, 0, 0),
    ]
    for offset in (0, 2):  # of the source's and the target's port
        program.append((_LOAD_HALF_AT_X, 0, 0, offset))
        for port in wanted:
            program.append((_JUMP_IF_EQUAL, accept - len(program) - 1, 0, port))
    program += [(_RETURN, 0, 0, 0), (_RETURN, 0, 0, _EVERYTHING)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)

"""The text of a distinguished name, as Java's ``X500Principal.getName()`` gives it (RFC 2253)."""

from __future__ import annotations

from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

_KEYWORDS = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
_ESCAPED = frozenset(',=+<>#;"\\')
_TEXTS = frozenset(
    (_ASN1Type.UTF8String, _ASN1Type.PrintableString, _ASN1Type.IA5String, _ASN1Type.T61String, _ASN1Type.BMPString)
)
"""Types that Java writes as text, if the type has a keyword."""
_ENCODINGS = {
    _ASN1Type.BMPString: "utf-16-be",
    _ASN1Type.UniversalString: "utf-32-be",
    _ASN1Type.T61String: "latin-1",
}


def distinguished_name(name: x509.Name) -> str:
    """Return the most specific part first.

    Types without a keyword in RFC 2253 are OIDs, with the DER of the value in hex.
    """
    return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(list(name.rdns)))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid)
    if keyword is None or isinstance(attribute.value, bytes) or attribute._type not in _TEXTS:
        return f"{keyword or attribute.oid.dotted_string}=#{_der(attribute).hex()}"
    return f"{keyword}={_escaped(attribute.value)}"


def _escaped(value: str) -> str:
    inner = value.strip(" \r")
    lead = len(value) - len(value.lstrip(" \r"))
    text = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in inner)
    before = "".join(f"\\{each}" for each in value[:lead])
    after = "".join(f"\\{each}" for each in value[lead + len(inner) :])
    return f"{before}{text}{after}"


def _der(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    kind, value = attribute._type, attribute.value
    data = value if isinstance(value, bytes) else value.encode(_ENCODINGS.get(kind, "utf-8"))
    size = len(data)
    if size < 0x80:
        length = bytes([size])
    else:
        digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
        length = bytes([0x80 | len(digits)]) + digits
    return bytes([kind.value]) + length + data

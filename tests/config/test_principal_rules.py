"""ssl.principal.mapping.rules, as in Kafka's SslPrincipalMapperTest."""

from __future__ import annotations

import pytest

from muster.actors.config.tls.principal_rules import PrincipalRules

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("", DUKE, None),
        (" , ,DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1@$2/, DEFAULT", DUKE, "Duke@$2"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U,DEFAULT", DUKE, "DUKE"),
        ("RULE:^CN=([^,]+),OU=svc.*$/svc-$1/L,DEFAULT", "CN=Pay,OU=svc,O=x", "svc-pay"),
        ("RULE:CN=Duke/half/,RULE:.*Duke.*/whole/", DUKE, "whole"),
        ("RULE:CN=Duke/half/", DUKE, None),
        ("RULE:^CN=([^,ADEFLTU,]+)(.*$|,.*$)/$1/", "CN=test,OU=x", "test"),
        (r"RULE:^CN=(.*)\/(.*),OU=x$/$2/", "CN=a/b,OU=x", "b"),
        (r"RULE:^CN=(.*),OU=x$/$1\/$1/", "CN=a,OU=x", "a/a"),
        ("RULE:^CN=(.)(.*)$/$12$0/", "CN=ab", "a2CN=ab"),
        ("RULE:^CN=(?<who>.*)$/$1/", "CN=a", "a"),
        ("RULE:^CN=a(b)?$/[$1]/", "CN=a", "[]"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_wins(rules: str, name: str, mapped: str | None) -> None:
    assert PrincipalRules.parse(rules).name(name) == mapped


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("default", "has no RULE:pattern/replacement/[LU] and no DEFAULT at 'default'"),
        ("DEFAULT/L", "at 'DEFAULT/L'"),
        ("RULE:^CN=(.*?)/$1/LU", "at 'RULE:^CN=(.*?)/$1/LU'"),
        ("DEFAULT,RULE:^CN=(.*?)", "at 'RULE:^CN=(.*?)'"),
        ("RULE:CN=(/x/", "has the pattern CN=(, which is no regular expression"),
    ],
)
def test_what_is_no_rule_is_refused(rules: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".*") as refused:
        PrincipalRules.parse(rules)
    assert message in str(refused.value)

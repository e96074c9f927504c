"""Settings of access control: values, files, environment, and addresses."""

import socket
import ssl

import pytest

from aioexec.distributed.security.proofs import CallProofs
from aioexec.distributed.security.security import Security, is_loopback
from aioexec.errors import FailedPreconditionError, GraphValueError
from tests.distributed.certificates import make_authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return make_authority(tmp_path_factory.mktemp("certificates") / "authority")


@pytest.fixture(scope="module")
def signed(authority):
    return authority.signed("server")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:2222", "127.8.9.1:0", "[::1]:80", "localhost:2222", "LOCALHOST:1", "localhost.:1",
        "[::ffff:127.0.0.1]:5",
    ],
)  # fmt: skip
def test_only_this_machine_reaches_a_loopback_address(address):
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0:2222", "[::]:2222", ":2222", "", "10.0.0.1:1", "[fe80::1]:1", "[fe80::1%eth0]:1", "example.org:1",
        "localhost.example.org:1", "notlocalhost:1", "127.1:1", "2130706433:1", "[::ffff:10.0.0.1]:5", "dns:///127.0.0.1:1",
    ],
)  # fmt: skip
def test_every_other_address_may_be_reached_from_elsewhere(address):
    assert not is_loopback(address)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "host.example:2222"])
def test_listening_beyond_loopback_without_protection_is_refused_and_says_what_to_do(address):
    with pytest.raises(FailedPreconditionError) as failed:
        Security().check_listening(address)

    for hint in (
        address,
        "AIOEXEC_TOKEN_FILE",
        "AIOEXEC_TLS_CERT",
        "AIOEXEC_TLS_CA",
        "127.0.0.1",
        "insecure",
    ):
        assert hint in failed.value.message


def test_a_certificate_that_no_caller_must_answer_with_one_is_no_protection():
    with pytest.raises(FailedPreconditionError):
        Security(certificate=b"c", key=b"k").check_listening("0.0.0.0:0")


@pytest.mark.parametrize(
    "security",
    [Security(token="secret"), Security(certificate=b"c", key=b"k", ca=b"a"), Security(insecure=True)],
    ids=["token", "mutual TLS", "insecure"],
)
def test_listening_anywhere_is_allowed_with_one_of_them(security):
    security.check_listening("0.0.0.0:0")


def test_loopback_needs_nothing():
    Security().check_listening("127.0.0.1:0")


@pytest.mark.parametrize(
    "said",
    [
        "",
        "secret",
        "Bearer",
        "Bearer ",
        "Bearer secre",
        "Bearer secret2",
        "Bearer Secret",
        "Bearer sécret",
    ],
)
def test_a_wrong_token_is_not_admitted(said):
    assert not Security(token="secret").is_token_of(said)


def test_calls_carry_the_token_over_tls_only():
    path = "/tensorflow.MasterService/RunStep"
    plain, over_tls = Security(token="secret"), Security(token="secret", ca=b"certificates")

    assert over_tls.authorization(path) == "Bearer secret"
    assert plain.is_token_of("Bearer secret")
    assert "secret" not in (plain.authorization(path) or "")
    assert CallProofs("secret").admits(plain.authorization(path) or "", path)
    assert Security().authorization(path) is None


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [(["127.0.0.1"], True), (["127.0.0.1", "::1"], True), (["127.0.0.1", "10.0.0.7"], False), ([], False)],
)
def test_a_name_below_localhost_is_judged_by_its_addresses(monkeypatch, addresses, expected):
    found = [(None, None, None, "", (address, 0)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **options: found)

    assert is_loopback("worker.localhost:3") is expected


def test_a_token_that_other_users_may_read_is_refused(tmp_path):
    path = tmp_path / "token"
    path.write_text("secret")
    path.chmod(0o644)
    with pytest.raises(FailedPreconditionError, match="every user of this machine may read it"):
        Security.from_files(token=path)

    path.chmod(0o600)

    assert Security.from_files(token=path).token == "secret"


def test_secrets_are_not_shown():
    shown = repr(Security(certificate=b"public", key=b"private", token="secret"))

    assert "private" not in shown
    assert "secret" not in shown


@pytest.mark.parametrize("token", ["", "two\nlines", "schlüssel", "nul\0"])
def test_a_token_that_cannot_be_metadata_is_refused(token):
    with pytest.raises(GraphValueError):
        Security(token=token)


def test_a_certificate_without_its_key_is_refused():
    with pytest.raises(GraphValueError):
        Security(certificate=b"c")
    with pytest.raises(GraphValueError):
        Security(key=b"k")


def test_the_environment_names_files(authority, signed, tmp_path):
    certificate, key = signed
    token = tmp_path / "token"
    token.write_text("secret\n", encoding="ascii")
    token.chmod(0o600)

    security = Security.from_environment(
        {
            "AIOEXEC_TLS_CERT": str(certificate),
            "AIOEXEC_TLS_KEY": str(key),
            "AIOEXEC_TLS_CA": str(authority.certificate),
            "AIOEXEC_TOKEN_FILE": str(token),
        }
    )

    assert security.certificate == certificate.read_bytes()
    assert security.key == key.read_bytes()
    assert security.ca == authority.certificate.read_bytes()
    assert security.token == "secret"


def test_an_empty_environment_means_no_protection():
    assert Security.from_environment({}) == Security()
    assert Security.from_environment({"AIOEXEC_TOKEN_FILE": ""}) == Security()


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FailedPreconditionError, match="gone"):
        Security.from_files(token=tmp_path / "gone")


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe", b"two\nlines"])
def test_a_token_file_without_a_token_is_refused(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(FailedPreconditionError, match="token"):
        Security.from_files(token=path)


def test_a_key_of_another_certificate_is_refused_where_it_is_read(authority, signed):
    _, key = authority.signed("other")

    with pytest.raises(FailedPreconditionError, match="certificate"):
        Security.from_files(signed[0], key)


def test_files_that_are_no_certificates_are_refused_where_they_are_read(signed, tmp_path):
    nonsense = tmp_path / "nonsense"
    nonsense.write_bytes(b"nonsense")

    with pytest.raises(FailedPreconditionError, match="certificate"):
        Security.from_files(nonsense, signed[1])
    with pytest.raises(FailedPreconditionError, match="CA"):
        Security.from_files(ca=nonsense)


def test_contexts_for_sockets_ask_for_what_is_configured(authority, signed):
    security = Security.from_files(signed[0], signed[1], authority.certificate)

    listening, calling = security.listening_context(), security.calling_context()

    assert listening is not None
    assert listening.verify_mode is ssl.CERT_REQUIRED
    assert calling is not None
    assert calling.check_hostname
    assert Security(token="secret").listening_context() is None
    assert Security(token="secret").calling_context() is None

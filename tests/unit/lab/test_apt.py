"""The parts of the private apt state that need no network."""

from tests.lab.apt import deb_names, inherited_settings, suites_for


def test_backports_are_read_together_with_their_release() -> None:
    assert suites_for("trixie-backports") == ["trixie-backports", "trixie"]
    assert suites_for("sid") == ["sid"]


def test_the_machines_proxy_is_kept_and_its_hooks_are_not() -> None:
    dump = (
        'APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb || true";\n'
        'Acquire::http::Proxy "http://proxy.example:3128";\n'
        'Acquire::Languages:: "en";\n'
        'Dir::State "var/lib/apt";\n'
    )
    assert inherited_settings(dump) == ['Acquire::http::Proxy "http://proxy.example:3128";']


def test_file_names_come_from_what_apt_would_fetch() -> None:
    uris = (
        "Reading package lists...\n"
        "'http://mirror.example/pool/c/core_1%3a10.deb' core_1%3a10_amd64.deb 123 SHA256:00\n"
        "'http://mirror.example/pool/l/libc6.deb' libc6_2.36_amd64.deb 456 SHA256:11\n"
    )
    assert deb_names(uris) == ["core_1%3a10_amd64.deb", "libc6_2.36_amd64.deb"]

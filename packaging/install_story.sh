#!/bin/sh
# Installs, upgrades and purges a Debian package of zbackup in a copy of this system that is gone afterwards:
# unshare --mount sh install_story.sh DIRECTORY PACKAGE. The directory is empty; the package lies outside of it.
set -eu
home=$1 package=$2
mount -t tmpfs tmpfs "$home"
mkdir "$home/upper" "$home/work" "$home/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$home/upper,workdir=$home/work" "$home/root"
cp "$package" "$home/root/zbackup.deb"
cat >"$home/root/story.sh" <<'STORY'
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive
cd /
rm -f /usr/local/bin/zbackup
say() { echo "story: $*"; }
dpkg -i /zbackup.deb
say "version $(/usr/bin/zbackup --version)"
test "$(command -v zbackup)" = /usr/bin/zbackup
getent passwd zbackup >/dev/null && say user
test "$(stat -c '%a %U:%G' /etc/zbackup)" = "750 root:zbackup" && say directory
set +e
zbackup check >/dev/null 2>&1; say "check without a configuration ends with $?"
set -e
cp /usr/share/doc/zbackup-pitr/examples/config.toml /etc/zbackup/config.toml
zbackup list >/dev/null 2>/said || say "the example is read: $(head -c 60 /said)"
loose=$(find /usr/lib/zbackup-pitr -not -type l -perm /022 | head -3)
test -z "$loose" && say "nobody but root may change the program"
! grep -rl /usr/local/bin/zbackup /usr/lib/systemd/system && say "units start the packaged program"
test -f /usr/lib/systemd/system/zbackup-web.service && getent passwd zbackup-web >/dev/null && say "the web page's units and user"
zbackup web --help >/dev/null && /usr/lib/zbackup-pitr/bin/python -I -c 'import starlette, uvicorn, jinja2' && say "what the page is made with"
man -w zbackup-restore >/dev/null 2>&1 && MANWIDTH=90 man zbackup.toml 2>/dev/null | grep -q max_age && say "man pages"
bash -n /usr/share/bash-completion/completions/zbackup && say completion
mkdir -p /var/lib/zbackup/clones/shop && echo data >/var/lib/zbackup/clones/shop/ibdata1
echo '{}' >/var/lib/zbackup/daemon.json
dpkg -i /zbackup.deb
test -f /etc/zbackup/config.toml && say "an upgrade keeps the configuration"
dpkg -r zbackup-pitr
test ! -e /usr/bin/zbackup && test -f /etc/zbackup/config.toml && say removed
dpkg -P zbackup-pitr
test ! -e /usr/lib/zbackup-pitr && test ! -e /var/lib/zbackup/daemon.json && say purged
test "$(cat /var/lib/zbackup/clones/shop/ibdata1)" = data && say "a purge leaves what lies below clones"
test -f /etc/zbackup/config.toml && say "and the configuration"
STORY
exec chroot "$home/root" /bin/sh -eu /story.sh

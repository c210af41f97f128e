#!/bin/sh
# Runs the role on this machine, as root, with a pool that is gone afterwards: story.sh ANSIBLE-PLAYBOOK ZBACKUP.
# For a guest of the lab or another machine of which nothing is to be kept.
set -eu
playbook=$1 program=$2
say() { echo "story: $*"; }
cd "$(dirname "$0")"
home=$(mktemp -d)
export HOME="$home" ANSIBLE_LOCAL_TEMP="$home/tmp" ANSIBLE_REMOTE_TEMP="$home/tmp" ANSIBLE_NOCOLOR=1 PATH="/usr/local/bin:$PATH"
truncate -s 256M "$home/disk"
zpool create -o cachefile=none -O mountpoint="$home/pool" roletest "$home/disk"
trap 'zpool destroy -f roletest' EXIT
zfs create roletest/mysql
ln -sfn "$program" /usr/local/bin/zbackup
cat >"$home/site.yml" <<'END'
- hosts: localhost
  connection: local
  roles:
    - role: zbackup
      vars:
        zbackup_install: none
        zbackup_check: false
        zbackup_datasets: [roletest/mysql]
        zbackup_secrets: {shop.password: "a secret"}
        zbackup_config: |
          [instance.shop]
          engine = "{{ engine | default('mysql') }}"
          datasets = ["roletest/mysql"]
          password = { file = "/etc/zbackup/shop.password" }
        zbackup_receive:
          - user: zrecvtest
            dataset: roletest/backups/db1
            quota: 100M
            key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVJwBmaOIt2nSWpPJwnpHHq2RmqkQ2qkZ2Xn1exampl db1{{ more | default('') }}"
            power: "{{ power | default('append-only') }}"
END
play() { ANSIBLE_ROLES_PATH=roles "$playbook" -i localhost, -e ansible_python_interpreter="$(command -v python3)" "$@" "$home/site.yml"; }
play
say applied
test "$(stat -c '%a %U:%G' /etc/zbackup/shop.password)" = "640 root:zbackup" && say secrets
zbackup list && say "the configuration is read"
zfs allow roletest/mysql | grep -q 'user zbackup .*snapshot' && say delegated
line=$(cat ~zrecvtest/.ssh/authorized_keys 2>/dev/null || cat "$(getent passwd zrecvtest | cut -d: -f6)/.ssh/authorized_keys")
test "$line" = 'restrict,command="/usr/local/bin/zbackup gate --root roletest/backups/db1 --append-only" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVJwBmaOIt2nSWpPJwnpHHq2RmqkQ2qkZ2Xn1exampl db1' \
  && say "the key is append-only"
test "$(zfs get -Hpo value quota roletest/backups/db1)" = 104857600 && say quota
play | grep -q 'changed=0 ' && say "run again, it changes nothing"
may() { zfs allow roletest/backups/db1 | sed -n 's/.*user zrecvtest //p'; }
may | grep -q receive && ! may | grep -q destroy && say "the key's user may receive"
play -e power=read-only >"$home/said"
test "$(may)" = send && grep -q -- --read-only ~zrecvtest/.ssh/authorized_keys && say "a key that may only read cannot receive any more"
if play -e engine=oracle >"$home/said"; then exit 1; fi
grep -q 'instance.shop.engine: expected' "$home/said" && grep -q mysql /etc/zbackup/config.toml && say "what zbackup refuses replaces nothing"
printf '{"more": "\\nssh-ed25519 %s other"}' "$(printf 'B%.0s' $(seq 68))" >"$home/two-lines.json"
before=$(cat ~zrecvtest/.ssh/authorized_keys)
if play -e "@$home/two-lines.json" >"$home/said"; then exit 1; fi
grep -q 'the one line of a .pub file' "$home/said" && test "$before" = "$(cat ~zrecvtest/.ssh/authorized_keys)" && say "a key file of two lines lets nobody in"
echo "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVJwBmaOIt2nSWpPJwnpHHq2RmqkQ2qkZ2Xn1exampl db1" >>"$(getent passwd zrecvtest | cut -d: -f6)/.ssh/authorized_keys"
if play >"$home/said"; then exit 1; fi
grep -q 'may do other things there' "$home/said" && say "a key that may do more already is refused"

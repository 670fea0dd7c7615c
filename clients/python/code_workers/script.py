"""The shell script around a command of a sandbox.

A task's `/tmp` is its own and gone with it. So that a sandbox has one that stays, its entries are links into the
session's `tmp` while a command runs, and what the command put there beside them is moved to the session afterwards.
"""

from __future__ import annotations

import uuid

_SCRIPT = """\
exec 2>&1
own=$HOME/.sandbox kept=/workspace/tmp
mkdir -p "$own/bin" "$own/linked"
command -v python >/dev/null || ln -s "$(command -v python3)" "$own/bin/python" || true
PATH=$PATH:$own/bin
if [ -d "$kept" ]; then
  find "$kept" -mindepth 1 -maxdepth 1 -exec ln -s -t "$own/linked" {} + -exec ln -s -t /tmp {} +
fi
cat >"$own/command" <<'@END@'
@COMMAND@
@END@
shell=$(command -v bash || command -v sh)
"$shell" "$own/command"
code=$?
is_linked() { [ "$(readlink "/tmp/$1")" = "$kept/$1" ]; }
for entry in "$own"/linked/* "$own"/linked/.[!.]* "$own"/linked/..?*; do
  name=${entry##*/}
  if [ -L "$entry" ] && ! is_linked "$name"; then rm -rf "$kept/$name"; fi
done
for entry in /tmp/* /tmp/.[!.]* /tmp/..?*; do
  name=${entry##*/}
  if { [ -e "$entry" ] || [ -L "$entry" ]; } && ! is_linked "$name"; then
    mkdir -p "$kept" && mv -T "$entry" "$kept/$name" || code=1
  fi
done
exit "$code"
"""


def around(command: str) -> str:
    """The script that runs a command with its standard error in its output."""
    return _SCRIPT.replace("@END@", f"end-{uuid.uuid4().hex}").replace("@COMMAND@", command)

#!/bin/sh
# Says what makes the server load this version. dpkg, rpm and apk call it after an
# installation and after an upgrade. It changes nothing, and reads no file of the server's user.

cat <<'END'
@NAME@: the server loads version @VERSION@ at its next start (@RESTART@), by this line in @LOADED_FROM@:
loadmodule @FOLDER@/funnel.so
@WHO_ADDS_IT@
END
